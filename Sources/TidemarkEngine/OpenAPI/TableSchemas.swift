import TidemarkCore

/// The JSON Schemas of one table: its records in answers and in requests, its pages and its changes.
struct TableSchemas {
    let table: SyncedTable
    let schema: SyncSchema
    let names: ComponentNames

    /// The components of the table, with their names.
    var components: [(String, JSONTree)] {
        [
            (names.name(table.name), record), (names.name(table.name, "part"), part),
            (names.name(table.name, "new"), new), (names.name(table.name, "whole"), whole),
            (names.name(table.name, "change"), change), (names.name(table.name, "page"), page),
            (names.name(table.name, "changed"), changed),
        ]
    }

    // MARK: Answers

    /// A whole record, as the answer to a write has it.
    private var record: JSONTree {
        let properties = table.columns.map { (RecordText.member(of: $0.name), answer($0)) }
        let overruled: JSONTree = [
            "description": "The columns in which a policy chose another value.", "type": "array",
            "items": ["type": "string"],
        ]
        return [
            "title": .string(table.name), "description": .string(description), "type": "object",
            "properties": .members(properties + [("$revision", Self.revision), ("$overruled", overruled)]),
            "required": .strings(table.columns.map { RecordText.member(of: $0.name) } + ["$revision"]),
            "additionalProperties": false,
        ]
    }

    /// The selected columns of a record with related records, as the answer to a read has it.
    private var part: JSONTree {
        var forms: [(name: String, schemas: [JSONTree])] = table.columns.map { column in
            var schemas = [nullable(ValueSchemas.answer(column, of: table), column), ComponentNames.shared("Cut")]
            let parents = table.references.filter { $0.columns.contains(column.name) }.map(\.parent)
            for parent in Set(parents).sorted() where schema.byName[parent] != nil {
                schemas.append(names.reference(parent, "part"))
            }
            return (RecordText.member(of: column.name), schemas)
        }
        for child in children {
            let list: JSONTree = ["type": "array", "items": names.reference(child, "part")]
            let member = RecordText.member(of: child)
            if let index = forms.firstIndex(where: { $0.name == member }) {
                forms[index].schemas.append(list)
            } else {
                forms.append((member, [list]))
            }
        }
        let properties = forms.map { ($0.name, $0.schemas.count == 1 ? $0.schemas[0] : ["anyOf": .array($0.schemas)]) }
        let key: JSONTree = ["description": "The key as in a path; in lists only.", "type": "string"]
        return [
            "title": .string("\(table.name), selected columns"),
            "description": "A record. Without `select` it has every column.", "type": "object",
            "properties": .members(properties + [("$key", key), ("$revision", Self.revision)]),
            "required": ["$revision"], "additionalProperties": false,
        ]
    }

    /// The tables that `select` can embed: those that refer to this one by one foreign key.
    var children: [String] {
        let tables = schema.references(to: table.name).map(\.child.name)
        return Set(tables).sorted().filter { name in tables.filter { $0 == name }.count == 1 }
    }

    private var page: JSONTree {
        [
            "title": .string("A page of \(table.name)"), "type": "object",
            "properties": [
                "epoch": ["type": "string"],
                "revision": ["description": "The revision of this page.", "type": "integer"],
                "state": [
                    "description":
                        "The state of this page. `/changes?since=` takes it, and a record's tag is `$revision@state`.",
                    "type": "string",
                ],
                "since": ["description": "The revision of the first page; `/changes` goes on.", "type": "integer"],
                "next": ["description": "The cursor of the next page; missing at the end.", "type": "string"],
                "count": ComponentNames.shared("Count"),
                "records": ["type": "array", "items": names.reference(table.name, "part")],
            ],
            "required": ["epoch", "revision", "state", "since", "records"],
        ]
    }

    /// A change of a record in a feed.
    private var changed: JSONTree {
        [
            "title": .string("A change in \(table.name)"), "type": "object",
            "properties": [
                "table": ["const": .string(table.name)],
                "key": ["description": "The key as in a path.", "type": "string"], "revision": ["type": "integer"],
                "gone": ["description": "The record is deleted, or does not fit the filter.", "const": true],
                "record": names.reference(table.name, "part"),
            ],
            "required": ["table", "key", "revision"],
        ]
    }

    private static let revision: JSONTree = [
        "description": "The revision that last changed the record.", "type": "integer",
    ]

    // MARK: Requests

    /// A record to create.
    private var new: JSONTree {
        let required = table.columns.filter { column in
            let isKey = table.key.contains(column.name)
            return isKey ? table.keyKind != .integer : column.isNotNull && column.defaultSQL == nil
        }
        return body("A new record of \(table.name)", table.columns, required: required.map(\.name))
    }

    /// A record that replaces another: it has every column besides the key.
    private var whole: JSONTree {
        body("A whole record of \(table.name)", table.columns, required: table.valueColumns.map(\.name))
    }

    /// The columns to change; the others stay as they are.
    private var change: JSONTree { body("Columns of \(table.name) to change", table.columns, required: []) }

    private func body(_ title: String, _ columns: [SyncedTable.Column], required: [String]) -> JSONTree {
        let properties = columns.map { (RecordText.member(of: $0.name), input($0)) }
        let ignored = ["$revision", "$key", "$overruled"].map { name in
            (name, ["description": "Without effect, so that a client can send a record back."] as JSONTree)
        }
        return [
            "title": .string(title), "type": "object", "properties": .members(properties + ignored),
            "required": .strings(required.map(RecordText.member)), "additionalProperties": false,
        ]
    }

    // MARK: Columns

    private func answer(_ column: SyncedTable.Column) -> JSONTree {
        described(column, nullable(ValueSchemas.answer(column, of: table), column))
    }

    private func input(_ column: SyncedTable.Column) -> JSONTree {
        // A missing id, and NULL, are the server's to choose.
        let isOwnID = table.keyKind == .integer && table.key == [column.name]
        let value = ValueSchemas.input(column, of: table)
        return described(column, isOwnID ? Self.orNull(value) : nullable(value, column))
    }

    private func nullable(_ value: JSONTree, _ column: SyncedTable.Column) -> JSONTree {
        column.isNotNull || table.key.contains(column.name) ? value : Self.orNull(value)
    }

    private static func orNull(_ value: JSONTree) -> JSONTree { ["anyOf": [value, ["type": "null"]]] }

    private func described(_ column: SyncedTable.Column, _ value: JSONTree) -> JSONTree {
        let notes = notes(on: column)
        return notes.isEmpty ? value : JSONTree.members([("description", .string(notes))]).with(value)
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
            notes.append(Self.text(reference))
        }
        return notes.joined(separator: " ")
    }

    private static func text(_ reference: SyncedTable.Reference) -> String {
        let parent = "\(reference.parent) (\(reference.parentColumns.joined(separator: ", ")))"
        return "Refers to \(parent), ON DELETE \(reference.onDelete.rawValue)."
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
