import TidemarkCore

/// The parameters of lists of records: those that all tables share, and those that name columns.
enum QueryParameters {
    /// The components that all tables share.
    static let shared: [(String, JSONTree)] = [
        (
            "or",
            query("or", "One of the conditions holds; `and(…)`, `or(…)` and `not.` nest.", schema: conditions)
        ),
        ("and", query("and", "All conditions hold, as for several filters.", schema: conditions)),
        (
            "limit",
            query(
                "limit",
                "The most records of a page, 100 without it. `all` is up to \(ListQuery.allMax) records at once.",
                schema: [
                    "anyOf": [
                        ["type": "integer", "minimum": 1, "maximum": .integer(Int64(ListQuery.limitMax))],
                        ["const": "all"],
                    ]
                ]
            )
        ),
        ("after", query("after", "The cursor `next` of the previous page.", schema: ["type": "string"])),
        (
            "count",
            query("count", "Counts the records that the filters select.", schema: ["enum": ["exact", "estimate"]])
        ),
        (
            "truncate",
            query(
                "truncate",
                "The most characters of a value; of a longer one comes its beginning.",
                schema: ["type": "integer", "minimum": 1, "maximum": 100_000]
            )
        ),
    ]

    /// References to the parameters of a list that no column names.
    static let ofLists: [JSONTree] = ["or", "and", "limit", "after", "count", "truncate"].map(reference)

    /// A reference to a shared parameter.
    static func reference(_ name: String) -> JSONTree { ["$ref": "#/components/parameters/\(name)"] }

    /// The schema of a filter on one column.
    ///
    /// The pattern accepts what ``TidemarkCore/ParseFilter`` reads.
    static let filter: JSONTree = {
        let quoted = #""(?:[^"\\]|\\[\s\S])*""#
        let value = #"(?:\#(quoted)|(?!")[\s\S]*)"#
        let element = #"(?:\#(quoted)|(?!")[^,)]*)"#
        let comparison = #"(?:eq|neq|gt|gte|lt|lte|like)\.\#(value)"#
        return [
            "description": """
            A condition on a column: `eq`, `neq`, `gt`, `gte`, `lt`, `lte`, `like` (`*` stands for any text), \
            `in.(a,b)` or `is.null`, perhaps after `not.`: `gte.100`.
            """,
            "type": "string",
            "pattern": .string(#"^(?:not\.)*(?:is\.null|in\.\(\#(element)(?:,\#(element))*\)|\#(comparison))$"#),
        ]
    }()

    /// The filters of a table, one parameter a column.
    static func filters(of table: SyncedTable) -> [JSONTree] {
        table.columns.map { column in
            [
                "name": .string(filterName(column.name)), "in": "query", "schema": ComponentNames.shared("Filter"),
                "description": .string("A condition on \(column.name)."),
            ]
        }
    }

    /// The selection of a table's columns, and of related records.
    static func selection(of table: SyncedTable, relations: [String]) -> JSONTree {
        var schema: JSONTree = ["enum": .strings(["*"] + table.columns.map { name($0.name, endings: ",(") })]
        if !relations.isEmpty {
            let names = relations.map { regex(name($0, endings: ",(")) }.joined(separator: "|")
            schema = ["anyOf": [schema, ["type": "string", "pattern": .string(#"^(?:\#(names))\(.+\)$"#)]]]
        }
        let example = relations.first.map { " `\(name($0, endings: ",("))(*)` adds related records." } ?? ""
        return list("select", description: "The columns.\(example)", items: schema, examples: [table.columns[0].name])
    }

    /// The order of a list.
    static func order(of table: SyncedTable) -> JSONTree {
        let names = table.columns.map { name($0.name, endings: ",.") }
        let directions = names.flatMap { [$0, "\($0).asc", "\($0).desc"] }
        let description = "The order; then always the key. NULL comes first ascending, last descending."
        return list(
            "order",
            description: description,
            items: ["enum": .strings(directions)],
            countMax: 8,
            examples: [names[0]]
        )
    }

    // MARK: Private

    private static let conditions: JSONTree = [
        "type": "string",
        "pattern":
            #"^\((?:(?:and|or)\(|[^.,()]+\.(?:not\.)?(?:is\.null|in\.\(|(?:eq|neq|gt|gte|lt|lte|like)\.))[\s\S]*\)$"#,
    ]

    private static let ownNames: Set<String> = [
        "select", "order", "limit", "after", "count", "truncate", "or", "and",
    ]

    /// The name of a column's filter: in quotes if a parameter has the name, or if the column's begins with quotes.
    private static func filterName(_ column: String) -> String {
        let isQuoted = column.count > 1 && column.hasPrefix("\"") && column.hasSuffix("\"")
        return ownNames.contains(column) || isQuoted ? "\"\(column)\"" : column
    }

    /// A name within a parameter's value: in quotes if it holds a character that ends names there.
    private static func name(_ name: String, endings: String) -> String {
        guard name.hasPrefix("\"") || name.isEmpty || name.contains(where: endings.contains) else { return name }
        let escaped = name.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        return "\"\(escaped)\""
    }

    private static func regex(_ text: String) -> String {
        text.reduce(into: "") { pattern, character in
            if #"\^$.|?*+()[]{}/-"#.contains(character) { pattern += "\\" }
            pattern.append(character)
        }
    }

    private static func query(_ name: String, _ description: String, schema: JSONTree) -> JSONTree {
        ["name": .string(name), "in": "query", "description": .string(description), "schema": schema]
    }

    private static func list(
        _ name: String,
        description: String,
        items: JSONTree,
        countMax: Int64 = 1_000,
        examples: [String]
    ) -> JSONTree {
        let schema: JSONTree = [
            "type": "array", "items": items, "minItems": 1, "maxItems": .integer(countMax), "uniqueItems": true,
        ]
        return query(name, description, schema: schema).with([
            "style": "form", "explode": false, "example": .strings(examples),
        ])
    }
}
