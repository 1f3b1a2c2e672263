import TidemarkCore

/// What the document says of one table: the holes of the template that name its columns.
struct TableParts {
    let table: SyncedTable
    let schema: SyncSchema
    let components: ComponentNames

    /// The holes of the table's paths and schemas, by name.
    var holes: [String: JSONTree] {
        let names = table.columns.map { Self.name($0.name, endings: ",.") }
        let keys = ComponentNames.keyParameters(of: table)
        return [
            "table": .string(table.name), "component": .string(components[table.name]),
            "table in a path": .string(RecordPath.encode(table.name)),
            "key in a path": .string(keys.map { "{\($0)}" }.joined(separator: ",")),
            // Parameters.
            "keys": .array(zip(keys, table.key).map(keyParameter)), "filters": .array(filters),
            "key of the body": keyLink("$response.body#"), "key of the first": keyLink("$response.body#/records/0"),
            "first column": .string(table.columns[0].name), "first name": .string(names[0]),
            "orders": .strings(names.flatMap { [$0, "\($0).asc", "\($0).desc"] }),
            "selected": selected,
            "relation example": .string(relations.first.map { " `\($0)(*)` adds related records." } ?? ""),
            // Schemas.
            "description": .string(description), "parts": .object(parts),
            "answers": .object(table.columns.map { (RecordText.member(of: $0.name), answer($0)) }),
            "inputs": .object(table.columns.map { (RecordText.member(of: $0.name), input($0)) }),
            "members": members(table.columns), "needed": members(needed), "values": members(table.valueColumns),
        ]
    }

    private func keyParameter(_ name: String, _ column: String) -> JSONTree {
        let value: JSONTree =
            table.keyKind == .integer
            ? ["type": "integer", "minimum": .integer(.min), "maximum": .integer(.max)]
            : ["type": "string", "minLength": 1]
        return [
            "name": .string(name), "in": "path", "required": true, "schema": value,
            "description": .string("\(column) of the key; a value that is no text or number as its JSON."),
        ]
    }

    /// The parameters of a link to the operations on a record, whose key an answer has.
    private func keyLink(_ record: String) -> JSONTree {
        .object(
            zip(ComponentNames.keyParameters(of: table), table.key).map { parameter, column in
                let member = RecordText.member(of: column).replacing("~", with: "~0").replacing("/", with: "~1")
                return ("path.\(parameter)", .string("\(record)/\(member)"))
            }
        )
    }

    private static let ownNames: Set<String> = [
        "select", "order", "limit", "after", "count", "truncate", "or", "and",
    ]

    /// The filters, one parameter a column.
    private var filters: [JSONTree] {
        table.columns.map { column in
            // In quotes if a parameter has the name, or if the column's name begins with quotes.
            let isQuoted = column.name.count > 1 && column.name.hasPrefix("\"") && column.name.hasSuffix("\"")
            let name = Self.ownNames.contains(column.name) || isQuoted ? "\"\(column.name)\"" : column.name
            return [
                "name": .string(name), "in": "query", "schema": ComponentNames.shared("Filter"),
                "description": .string("A condition on \(column.name)."),
            ]
        }
    }

    /// The columns and tables that lead to records that `select` can add.
    private var relations: [String] {
        let parents = table.references.filter { schema.byName[$0.parent] != nil }.flatMap(\.columns)
        return Set(parents + children).sorted().map { Self.name($0, endings: ",(") }
    }

    private var selected: JSONTree {
        let columns: JSONTree = ["enum": .strings(["*"] + table.columns.map { Self.name($0.name, endings: ",(") })]
        guard !relations.isEmpty else { return columns }
        let names = relations.map(Self.regex).joined(separator: "|")
        return ["anyOf": [columns, ["type": "string", "pattern": .string(#"^(?:\#(names))\(.+\)$"#)]]]
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

    private var needed: [SyncedTable.Column] {
        table.columns.filter { column in
            let isKey = table.key.contains(column.name)
            return isKey ? table.keyKind != .integer : column.isNotNull && column.defaultSQL == nil
        }
    }

    private func members(_ columns: [SyncedTable.Column]) -> JSONTree {
        .strings(columns.map { RecordText.member(of: $0.name) })
    }

    /// The selected columns of a record with related records, as the answer to a read has them.
    private var parts: [JSONTree.Member] {
        var forms: [(name: String, schemas: [JSONTree])] = table.columns.map { column in
            var schemas = [nullable(column.answer(in: table), column), ComponentNames.shared("Cut")]
            let parents = table.references.filter { $0.columns.contains(column.name) }.map(\.parent)
            for parent in Set(parents).sorted() where schema.byName[parent] != nil {
                schemas.append(components.reference(parent, "part"))
            }
            return (RecordText.member(of: column.name), schemas)
        }
        for child in children {
            let list: JSONTree = ["type": "array", "items": components.reference(child, "part")]
            let member = RecordText.member(of: child)
            if let index = forms.firstIndex(where: { $0.name == member }) {
                forms[index].schemas.append(list)
            } else {
                forms.append((member, [list]))
            }
        }
        return forms.map { ($0, $1.count == 1 ? $1[0] : ["anyOf": .array($1)]) }
    }

    /// The tables that `select` can embed: those that refer to this one by one foreign key.
    private var children: [String] {
        let tables = schema.references(to: table.name).map(\.child.name)
        return Set(tables).sorted().filter { name in tables.filter { $0 == name }.count == 1 }
    }

    private func answer(_ column: SyncedTable.Column) -> JSONTree {
        described(column, nullable(column.answer(in: table), column))
    }

    private func input(_ column: SyncedTable.Column) -> JSONTree {
        // A missing id, and NULL, are the server's to choose.
        let isOwnID = table.keyKind == .integer && table.key == [column.name]
        let value = column.input(in: table)
        return described(column, isOwnID ? Self.orNull(value) : nullable(value, column))
    }

    private func nullable(_ value: JSONTree, _ column: SyncedTable.Column) -> JSONTree {
        column.isNotNull || table.key.contains(column.name) ? value : Self.orNull(value)
    }

    private static func orNull(_ value: JSONTree) -> JSONTree { ["anyOf": [value, ["type": "null"]]] }

    private func described(_ column: SyncedTable.Column, _ value: JSONTree) -> JSONTree {
        let notes = notes(on: column)
        guard !notes.isEmpty else { return value }
        return .object([("description", .string(notes))] + value.members)
    }

    private func notes(on column: SyncedTable.Column) -> String {
        var notes: [String] = []
        if !column.type.isEmpty { notes.append("\(column.type).") }
        if table.key.contains(column.name) { notes.append("Part of the key, which never changes.") }
        if let text = column.defaultSQL { notes.append("Default: \(text).") }
        if let policy = schema.columnPolicies(of: table.name)[column.name] {
            notes.append("Conflict policy: \(policy.rawValue).")
        }
        for reference in table.references where reference.columns.contains(column.name) {
            let parent = "\(reference.parent) (\(reference.parentColumns.joined(separator: ", ")))"
            notes.append("Refers to \(parent), ON DELETE \(reference.onDelete.rawValue).")
        }
        return notes.joined(separator: " ")
    }

    /// The table's statement, whose CHECK constraints no JSON Schema can say, and its policy.
    private var description: String {
        let children = schema.references(to: table.name).map { child, reference in
            let columns = reference.columns.joined(separator: ", ")
            return "A deletion meets \(child.name) (\(columns)): ON DELETE \(reference.onDelete.rawValue)."
        }
        let policy = "Conflict policy: \(schema.policy(of: table.name).rawValue)."
        return (["```sql\n\(table.sql)\n```", policy] + children).joined(separator: "\n\n")
    }
}
