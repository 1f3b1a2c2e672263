import TidemarkCore

/// The JSON Schemas that do not depend on a zone's tables: problems, reports and batches.
enum SharedSchemas {
    /// The components.
    static let all: [(String, JSONTree)] =
        ValueSchemas.shared + [
            ("Filter", QueryParameters.filter), ("Count", count), ("Problem", problem), ("Reason", reason),
            ("Tables", tables), ("Revision", revision(more: [])), ("Revisions", revisions),
            (
                "RevisionWithChanges",
                revision(more: [
                    ("changes", ["description": "The change set, as in `/sync`.", "type": nullable("object")])
                ])
            ),
            ("History", history), ("Devices", devices), ("Conflicts", conflicts), ("BatchEntry", batchEntry),
            ("Batch", batch), ("BatchAnswer", batchAnswer), ("Comparison", comparison),
            ("ComparisonAnswer", comparisonAnswer),
        ]

    // MARK: Problems

    private static let problem: JSONTree = object(
        "The refusal of a request (RFC 9457). ERRORS.md explains each code.",
        [
            ("type", ["type": "string", "format": "uri-reference"]),
            ("title", ["description": "The failure in one sentence.", "type": "string"]),
            ("detail", ["description": "The remedy.", "type": "string"]),
            ("status", integer), ("code", ["description": "The stable name of the error.", "type": "string"]),
            (
                "recovery",
                ["enum": ["retry", "permanent", "resync", "renew", "repair", "signIn", "leave"]]
            ),
        ],
        optional: [
            (
                "place",
                object("The record or column.", [], optional: [("table", text), ("key", text), ("column", text)])
            ),
            ("reasons", list(ComponentNames.shared("Reason"))),
            ("current", ["description": "The record as it is now.", "type": "object"]),
            ("index", ["description": "The position of the entry in its batch, from 0.", "type": "integer"]),
        ]
    )

    private static let reason: JSONTree = object(
        "A rule that the write breaks: `changed`, `deleted`, `exists`, `unique`, `referenced`, `parentDeleted`, …",
        [("rule", text)],
        optional: [("table", text), ("key", text), ("columns", list(text)), ("message", text)]
    )

    private static let count: JSONTree = [
        "description": "The number of records: exact, an estimate, or more than the server counts.",
        "anyOf": [integer, object(nil, [], optional: [("estimate", integer), ("atLeast", integer)])],
    ]

    // MARK: Reports

    private static let tables: JSONTree = object(
        "The tables of the zone.",
        [
            ("epoch", text), ("revision", integer), ("horizon", integer),
            (
                "tables",
                list(
                    object(
                        nil,
                        [
                            ("name", text), ("key", list(text)), ("columns", list(column)),
                            ("references", list(["type": "object"])), ("unique", list(list(text))), ("policy", text),
                            ("policies", ["type": "object", "additionalProperties": text]),
                            ("rows", object(nil, [], optional: [("estimate", integer), ("atLeast", integer)])),
                        ]
                    )
                )
            ),
        ]
    )

    private static let column: JSONTree = object(
        nil,
        [("name", text), ("type", text), ("notNull", ["type": "boolean"]), ("default", ["type": nullable("string")])]
    )

    private static let author: [(String, JSONTree)] = [
        ("committed", ["type": nullable("string"), "format": "date-time"]),
        ("source", ["enum": .strings(RevisionRecord.Source.allCases.map(\.rawValue))]),
        ("device", ["type": nullable("string")]), ("name", ["type": nullable("string")]),
        ("user", ["type": nullable("string")]),
    ]

    private static func revision(more: [(String, JSONTree)]) -> JSONTree {
        let counts = object(nil, [("created", integer), ("updated", integer), ("deleted", integer)])
        let members =
            [("revision", integer)] + author + [
                ("tables", ["type": "object", "additionalProperties": counts] as JSONTree)
            ]
        return object("A revision: who committed what, and when.", members + more)
    }

    private static let revisions: JSONTree = report(
        "The latest revisions.",
        "revisions",
        of: ComponentNames.shared("Revision"),
        more: [("horizon", integer), ("next", ["type": nullable("integer")])]
    )

    private static let history: JSONTree = report(
        "A record's changes, newest first.",
        "history",
        of: object(
            nil,
            [
                ("revision", integer), ("operation", ["enum": ["create", "update", "delete"]]),
                ("before", ["type": nullable("object")]), ("after", ["type": nullable("object")]),
            ],
            optional: author
        ),
        more: [("horizon", integer), ("next", ["type": nullable("integer")])]
    )

    private static let devices: JSONTree = report(
        "The devices, those that are farthest behind first.",
        "devices",
        of: object(
            nil,
            [
                ("device", text), ("name", ["type": nullable("string")]), ("user", ["type": nullable("string")]),
                ("revision", integer), ("lag", integer), ("firstContact", ["type": nullable("string")]),
                ("lastContact", ["type": nullable("string")]),
            ]
        ),
        more: [("count", integer)]
    )

    private static let conflicts: JSONTree = report(
        "The refused change sets, newest first.",
        "conflicts",
        of: object(
            nil,
            [
                ("id", text), ("device", ["type": nullable("string")]), ("name", ["type": nullable("string")]),
                ("time", ["type": nullable("string")]), ("reasons", list(["type": "object"])),
                ("records", list(["type": "object"])),
            ]
        ),
        more: [("next", ["type": nullable("integer")])]
    )

    // MARK: Batches

    private static let batchEntry: JSONTree = [
        "description": "One write. Negative ids are temporary, and other entries may refer to them.",
        "anyOf": [
            entry(["POST"], path: "^/?tables/[^/]+$", hasBody: true, []),
            entry(
                ["PATCH", "PUT"],
                path: "^/?tables/[^/]+/[^/]+$",
                hasBody: true,
                [("ifMatch", text), ("ifNoneMatch", text)]
            ),
            entry(["DELETE"], path: "^/?tables/[^/]+/[^/]+$", hasBody: false, [("ifMatch", text)]),
        ],
    ]

    private static func entry(_ methods: [String], path: String, hasBody: Bool, _ tags: [(String, JSONTree)])
        -> JSONTree
    {
        let body: [(String, JSONTree)] = hasBody ? [("body", ["type": "object"])] : []
        let start: [(String, JSONTree)] = [
            ("method", ["enum": .strings(methods)]), ("path", ["type": "string", "pattern": .string(path)]),
        ]
        return object(nil, start + body, optional: tags, isClosed: true)
    }

    private static let batch: JSONTree = object(
        "Writes that stand or fall together, unless `atomic` is false.",
        [
            (
                "requests",
                list(ComponentNames.shared("BatchEntry")).with([
                    "minItems": 1, "maxItems": .integer(Int64(WriteBatch.entriesMax)),
                ])
            )
        ],
        optional: [("atomic", ["type": "boolean", "default": true])],
        isClosed: true
    )

    private static let batchAnswer: JSONTree = object(
        "An answer an entry, in their order.",
        [
            (
                "responses",
                list(
                    object(
                        nil,
                        [("status", integer)],
                        optional: [
                            ("etag", text), ("location", text), ("record", ["type": "object"]),
                            ("problem", ComponentNames.shared("Problem")),
                        ]
                    )
                )
            )
        ]
    )

    // MARK: Comparisons

    private static let fingerprint: JSONTree = ["type": "string", "pattern": "^[0-9a-f]+$"]

    private static let comparison: JSONTree = object(
        "A client's rows of a part of a table: all of them, or ranges of keys.",
        [],
        optional: [
            ("filter", ["description": "The filter of the part, as in a query.", "type": "string"]),
            ("since", ["description": "The client's place in the feed.", "type": "string"]),
            ("rows", ["type": "integer", "minimum": 0]), ("fingerprint", fingerprint),
            (
                "ranges",
                list(
                    object(
                        nil,
                        [("rows", ["type": "integer", "minimum": 0]), ("fingerprint", fingerprint)],
                        optional: [
                            ("from", text), ("to", text),
                            ("have", ["type": "object", "additionalProperties": ["type": "string"]]),
                        ]
                    )
                )
            ),
        ]
    )

    private static let comparisonAnswer: JSONTree = [
        "description": "How the client's rows differ from the zone's.", "type": "object",
        "required": ["epoch", "revision"],
    ]

    // MARK: Forms

    private static let integer: JSONTree = ["type": "integer"]
    private static let text: JSONTree = ["type": "string"]

    private static func nullable(_ type: String) -> JSONTree { [.string(type), "null"] }

    private static func list(_ items: JSONTree) -> JSONTree { ["type": "array", "items": items] }

    private static func report(_ description: String, _ name: String, of item: JSONTree, more: [(String, JSONTree)])
        -> JSONTree
    {
        object(description, [("epoch", text), ("revision", integer), (name, list(item))] + more)
    }

    private static func object(
        _ description: String?,
        _ members: [(String, JSONTree)],
        optional: [(String, JSONTree)] = [],
        isClosed: Bool = false
    ) -> JSONTree {
        let start = JSONTree.members(description.map { [("description", .string($0))] } ?? [])
        let end: JSONTree = isClosed ? ["additionalProperties": false] : [:]
        return start.with([
            "type": "object", "properties": .members(members + optional), "required": .strings(members.map(\.0)),
        ]).with(end)
    }
}
