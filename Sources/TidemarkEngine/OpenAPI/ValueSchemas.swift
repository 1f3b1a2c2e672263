import TidemarkCore

/// The JSON Schemas of values: what answers hold, and what requests may send.
///
/// A STRICT table holds the type of a column and no other. Elsewhere SQLite converts a value by the column's affinity
/// if that loses nothing, and stores it as it is if not. So the schemas name the affinity's own form first.
enum ValueSchemas {
    /// The components that all tables share.
    static let shared: [(String, JSONTree)] = forms + answers + inputs

    // MARK: Columns

    /// The schema of a column in answers, without NULL.
    static func answer(_ column: SyncedTable.Column, of table: SyncedTable) -> JSONTree {
        if table.keyKind == .integer, table.key == [column.name] { return ComponentNames.shared("Integer") }
        guard table.isStrict else { return ComponentNames.shared(column.affinityComponent) }
        return ComponentNames.shared(column.strictType ?? "AnyValue")
    }

    /// The schema of a column in requests, without NULL.
    static func input(_ column: SyncedTable.Column, of table: SyncedTable) -> JSONTree {
        if table.keyKind == .integer, table.key == [column.name] { return ComponentNames.shared("Integer") }
        if table.key.contains(column.name) { return ComponentNames.shared("KeyInput") }
        guard table.isStrict, let type = column.strictType else { return ComponentNames.shared("AnyInput") }
        return ComponentNames.shared(type == "Blob" ? "Blob" : "\(type)Input")
    }

    // MARK: Components

    /// The forms of JSON that mean one kind of value.
    private static let forms: [(String, JSONTree)] = [
        (
            "Integer",
            [
                "description": "An integer of 64 bits; from 2^53 on in the form that JSON.parse does not round.",
                "anyOf": [
                    ["type": "integer", "minimum": .integer(-exactMax), "maximum": .integer(exactMax)],
                    ComponentNames.shared("LargeInteger"),
                ],
            ]
        ),
        ("LargeInteger", tagged("$int", ["type": "string", "pattern": "^-?(?:0|[1-9][0-9]{0,18})$"])),
        (
            "Real",
            [
                "description": "A REAL: a double.",
                "anyOf": [["type": "number"], ComponentNames.shared("Infinity")],
            ]
        ),
        ("Infinity", tagged("$real", ["type": "string", "enum": ["Infinity", "-Infinity"]])),
        (
            "Text",
            [
                "description": "A text; one with NUL or without valid UTF-8 comes as its bytes.",
                "anyOf": [["type": "string"], ComponentNames.shared("TextBytes")],
            ]
        ),
        ("TextBytes", tagged("$text", base64)),
        ("Blob", tagged("$blob", base64)),
        (
            "Cut",
            [
                "description": "The beginning of a long value, with its length in bytes: only with `truncate`.",
                "type": "object", "required": ["$cut"], "additionalProperties": false,
                "properties": [
                    "$cut": [
                        "type": "object", "required": ["type", "length"],
                        "properties": [
                            "type": ["type": "string", "enum": ["text", "blob"]],
                            "length": ["type": "integer", "minimum": 0], "start": ["type": "string"],
                        ],
                    ]
                ],
            ]
        ),
    ]

    /// The values that a column of an affinity holds.
    private static let answers: [(String, JSONTree)] = [
        ("IntegerAffinity", any("an integer where possible", ["Integer", "Real", "Text", "Blob"])),
        ("RealAffinity", any("a REAL where possible", ["Real", "Text", "Blob"])),
        ("NumericAffinity", any("a number where possible", ["Integer", "Real", "Text", "Blob"])),
        ("TextAffinity", any("a text where possible", ["Text", "Blob"])),
        ("AnyValue", any("the value that a client sent", ["Text", "Integer", "Real", "Blob"])),
    ]

    /// The values that a client may send.
    private static let inputs: [(String, JSONTree)] = [
        (
            "AnyInput",
            [
                "description": "A value, which SQLite converts by the column's affinity; true is 1, false is 0.",
                "anyOf": [
                    ["type": "string"], integer, ["type": "number"], ["type": "boolean"],
                    ComponentNames.shared("Blob"), ComponentNames.shared("TextBytes"),
                    ComponentNames.shared("LargeInteger"), ComponentNames.shared("Infinity"),
                ],
            ]
        ),
        (
            "KeyInput",
            [
                "description": "A value of a key.",
                "anyOf": [
                    ["type": "string"], integer, ["type": "number"], ComponentNames.shared("Blob"),
                    ComponentNames.shared("TextBytes"), ComponentNames.shared("LargeInteger"),
                    ComponentNames.shared("Infinity"),
                ],
            ]
        ),
        (
            "IntegerInput",
            [
                "description": "A value that SQLite converts to an integer without loss; true is 1, false is 0.",
                "anyOf": [
                    integer, ["type": "boolean"], ComponentNames.shared("LargeInteger"),
                    ["type": "string", "pattern": #"^\s*[+-]?[0-9]{1,18}(?:\.0*)?\s*$"#],
                ],
            ]
        ),
        (
            "RealInput",
            [
                "description": "A value that SQLite converts to a REAL; true is 1.0, false is 0.0.",
                "anyOf": [
                    ["type": "number"], ["type": "boolean"], ComponentNames.shared("LargeInteger"),
                    ComponentNames.shared("Infinity"),
                    [
                        "type": "string",
                        "pattern": #"^\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?\s*$"#,
                    ],
                ],
            ]
        ),
        (
            "TextInput",
            [
                "description": "A text, or a number that SQLite converts to one.",
                "anyOf": [
                    ["type": "string"], integer, ["type": "number"], ["type": "boolean"],
                    ComponentNames.shared("TextBytes"), ComponentNames.shared("LargeInteger"),
                    ComponentNames.shared("Infinity"),
                ],
            ]
        ),
    ]

    private static let exactMax: Int64 = 1 << 53 - 1

    /// An integer that fits into 64 bits.
    private static let integer: JSONTree = [
        "type": "integer", "minimum": .integer(.min), "maximum": .integer(.max),
    ]

    private static let base64: JSONTree = [
        "type": "string", "contentEncoding": "base64",
        "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    ]

    private static func tagged(_ tag: String, _ content: JSONTree) -> JSONTree {
        [
            "type": "object", "required": [.string(tag)], "properties": .members([(tag, content)]),
            "additionalProperties": false,
        ]
    }

    private static func any(_ preference: String, _ forms: [String]) -> JSONTree {
        [
            "description": "The column converts values: it holds \(preference), and other values as they are.",
            "anyOf": .array(forms.map(ComponentNames.shared)),
        ]
    }
}

extension SyncedTable {
    /// Whether the table is STRICT: an option behind the parenthesis that ends its columns.
    var isStrict: Bool {
        guard let end = sql.lastIndex(of: ")") else { return false }
        return sql[sql.index(after: end)...].split(separator: ",").contains { option in
            option.filter { !$0.isWhitespace }.uppercased() == "STRICT"
        }
    }
}

extension SyncedTable.Column {
    /// The component of the values that the affinity holds.
    fileprivate var affinityComponent: String {
        switch affinity {
        case "INTEGER": "IntegerAffinity"
        case "REAL": "RealAffinity"
        case "TEXT": "TextAffinity"
        case "NUMERIC": "NumericAffinity"
        default: "AnyValue"
        }
    }

    /// The component of the column's type in a STRICT table; nil for ANY.
    fileprivate var strictType: String? {
        switch type.uppercased() {
        case "INT", "INTEGER": "Integer"
        case "REAL": "Real"
        case "TEXT": "Text"
        case "BLOB": "Blob"
        default: nil
        }
    }
}
