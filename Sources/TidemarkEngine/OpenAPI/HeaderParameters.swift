/// The headers of requests that the document describes.
enum HeaderParameters {
    /// The components.
    static let shared: [(String, JSONTree)] = [
        (
            "If-Match",
            header(
                "If-Match",
                "The state that the client has seen; `*` is any state.",
                schema: matching,
                isRequired: true
            )
        ),
        (
            "If-Match-or-new",
            header("If-Match", "The state that the client has seen; `*` is any state.", schema: matching)
        ),
        (
            "If-None-Match-any",
            header("If-None-Match", "`*` creates the record.", schema: ["const": "*"])
        ),
        (
            "If-None-Match",
            header(
                "If-None-Match",
                "The `ETag` that the client has: the answer may be 304.",
                schema: ["type": "string"]
            )
        ),
        (
            "Idempotency-Key",
            header(
                "Idempotency-Key",
                "A new UUID; a repeated request with the same one has the first answer, and no second effect.",
                schema: ["type": "string", "format": "uuid", "pattern": .string(#"^"?\#(uuid)"?$"#)]
            )
        ),
        (
            "Prefer",
            header(
                "Prefer",
                "`return=minimal` answers without the record. Under `handling=lenient` the server ignores what it "
                    + "does not know.",
                schema: [
                    "type": "string",
                    "pattern": .string(#"^(?:(?:\#(preference)(?:, *\#(preference))*)?|.*handling=lenient.*)$"#),
                    "examples": ["return=minimal"],
                ]
            )
        ),
        (
            "Tidemark-Seen",
            header(
                "Tidemark-Seen",
                "The revision up to which the client has seen the whole zone.",
                schema: ["type": "integer", "minimum": 0, "maximum": .integer(.max)]
            )
        ),
        (
            "Last-Event-ID",
            header(
                "Last-Event-ID",
                "The id of the last event that the client has, in place of `since`.",
                schema: ["type": "string"]
            )
        ),
    ]

    /// A reference to a header parameter.
    static func reference(_ name: String) -> JSONTree { ["$ref": .string("#/components/parameters/\(name)")] }

    private static let uuid = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    private static let preference = "(?:return=minimal|return=representation|handling=strict|handling=lenient)"

    private static let matching: JSONTree = [
        "anyOf": [
            ["const": "*"],
            ["type": "string", "pattern": #"^"[0-9]{1,18}-[0-9a-f]{8}"(?:, *"[0-9]{1,18}-[0-9a-f]{8}")*$"#],
        ],
        "examples": ["*"],
    ]

    private static func header(_ name: String, _ description: String, schema: JSONTree, isRequired: Bool = false)
        -> JSONTree
    {
        JSONTree.members([
            ("name", .string(name)), ("in", "header"), ("description", .string(description)), ("schema", schema),
        ]).with(isRequired ? ["required": true] : [:])
    }
}
