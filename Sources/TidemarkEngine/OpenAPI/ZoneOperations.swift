import TidemarkCore

/// The operations on a zone as a whole, by their paths.
struct ZoneOperations {
    let schema: SyncSchema
    let names: ComponentNames

    /// The routes, which are the paths, with their operations.
    var paths: [(route: String, path: String, methods: [(String, JSONTree)])] {
        [
            ("/tables", [("get", report("listTables", "The tables", answer: "Tables"))]), ("/batch", [("post", batch)]),
            ("/changes", [("get", changes)]),
            ("/revisions", [("get", revisions)]),
            ("/revisions/{revision}", [("get", revision)]),
            ("/devices", [("get", report("listDevices", "The devices", answer: "Devices"))]),
            ("/devices/{device}", [("delete", forget)]),
            ("/conflicts", [("get", conflicts)]),
            ("/openapi.json", [("get", document)]),
        ].map { path, methods in (path, path, methods) }
    }

    /// The routes to pages, which belong to no zone, with their paths and operations.
    var pages: [(route: String, path: String, methods: [(String, JSONTree)])] {
        [
            (
                "/client/tidemark.js", "/client/tidemark.js",
                [("get", page("getClient", "The client", type: "text/javascript"))]
            ),
            ("/dashboard", "/dashboard/", [("get", page("getDashboard", "The dashboard", type: "text/html"))]),
        ]
    }

    private func page(_ id: String, _ summary: String, type: String) -> JSONTree {
        let content: [(String, JSONTree)] = [(type, ["schema": ["type": "string"]])]
        let file = DescribedAnswers.bare("The file.", headers: ["ETag"]).with(["content": .members(content)])
        return operation(id, summary, parameters: [HeaderParameters.reference("If-None-Match")]).with([
            // A page lies beside the zones.
            "servers": [["url": "/"]],
            "responses": DescribedAnswers.answers([("200", file)], refusals: [], isConditional: true),
        ])
    }

    /// The parameters of a report in pages, newest first.
    static let reportPage: [JSONTree] = [
        query("before", "The revision before which the page begins.", schema: ["type": "integer", "minimum": 0]),
        query("limit", "The most entries, 50 without it.", schema: ["type": "integer", "minimum": 1, "maximum": 500]),
    ]

    // MARK: Reports

    private func report(_ id: String, _ summary: String, answer: String, parameters: [JSONTree] = []) -> JSONTree {
        let done = DescribedAnswers.json("\(summary).", ComponentNames.shared(answer))
        return operation(id, summary, parameters: parameters).with([
            "responses": DescribedAnswers.answers([("200", done)], refusals: [422])
        ])
    }

    private var revisions: JSONTree {
        let parameters: JSONTree = ["path.revision": "$response.body#/revisions/0/revision"]
        let links: JSONTree = ["latest": ["operationId": "getRevision", "parameters": parameters]]
        let done = DescribedAnswers.json("The revisions.", ComponentNames.shared("Revisions")).with(["links": links])
        return operation("listRevisions", "What happened", parameters: revisionParameters).with([
            "responses": DescribedAnswers.answers([("200", done)], refusals: [422])
        ])
    }

    private var revision: JSONTree {
        report("getRevision", "One revision", answer: "RevisionWithChanges", parameters: [revisionParameter])
    }

    private var conflicts: JSONTree {
        report("listConflicts", "Refused change sets", answer: "Conflicts", parameters: conflictParameters)
    }

    private var revisionParameters: [JSONTree] {
        Self.reportPage + [
            Self.query(
                "table",
                "Only revisions that changed this table.",
                schema: ["enum": .strings(schema.tables.map(\.name).sorted())]
            ), Self.query("author", "Only revisions of this device or user.", schema: ["type": "string"]),
        ]
    }

    private let revisionParameter: JSONTree = [
        "name": "revision", "in": "path", "required": true,
        "schema": ["type": "integer", "minimum": 0, "maximum": .integer(.max - 1)],
    ]

    private var conflictParameters: [JSONTree] {
        let time: JSONTree = [
            "anyOf": [["type": "integer", "minimum": 0], ["type": "string", "format": "date-time"]]
        ]
        return [Self.query("before", "The time before which the page begins.", schema: time), Self.reportPage[1]]
    }

    private var forget: JSONTree {
        let device: JSONTree = [
            "name": "device", "in": "path", "required": true, "schema": ["type": "string", "minLength": 1],
        ]
        return operation("forgetDevice", "Forgets a device", parameters: [device]).with([
            "responses": DescribedAnswers.answers([("204", DescribedAnswers.bare("Done."))], refusals: [])
        ])
    }

    private var document: JSONTree {
        let done = DescribedAnswers.json("This document.", ["type": "object"], headers: ["ETag"])
        return operation("getOpenAPI", "This document", parameters: [HeaderParameters.reference("If-None-Match")]).with(
            [
                "responses": DescribedAnswers.answers([("200", done)], refusals: [422], isConditional: true)
            ])
    }

    // MARK: Changes

    private var changes: JSONTree {
        let page: JSONTree = [
            "description": "A page of the feed, or a stream of events with such pages.",
            "content": [
                "application/json": ["schema": ComponentNames.shared("Changes")],
                "text/event-stream": ["schema": ["type": "string"]],
            ],
            "links": [
                "next": ["operationId": "listChanges", "parameters": ["query.since": "$response.body#/next"]]
            ],
        ]
        return operation("listChanges", "What changed since a revision", parameters: changeParameters).with([
            "responses": DescribedAnswers.answers([("200", page)], refusals: [409, 410, 422])
        ])
    }

    /// The schema of a page of the feed, which has changes of each table.
    var feed: JSONTree {
        let items = schema.tables.map(\.name).sorted().map { names.reference($0, "changed") }
        return [
            "type": "object", "required": ["epoch", "revision", "since", "next", "more", "changes"],
            "properties": [
                "epoch": ["type": "string"], "revision": ["type": "integer"], "since": ["type": "integer"],
                "next": ["description": "The cursor of the next page: `since=NEXT`.", "type": "string"],
                "more": ["description": "Whether the next page is there at once.", "type": "boolean"],
                "changes": ["type": "array", "items": items.isEmpty ? ["type": "object"] : ["anyOf": .array(items)]],
            ],
        ]
    }

    private var changeParameters: [JSONTree] {
        let tables = schema.tables.map(\.name).filter { !$0.contains(",") }.sorted()
        let list: JSONTree = [
            "type": "array", "items": tables.isEmpty ? ["type": "string"] : ["enum": .strings(tables)],
        ]
        return [
            Self.query(
                "since",
                "A revision, a time, or the `next` of a page; nothing means now.",
                schema: ["type": "string"]
            ),
            Self.query("tables", "Only these tables.", schema: list).with(["style": "form", "explode": false]),
            Self.query("columns", "Only the columns that changed.", schema: ["const": "changed"]),
            Self.query("deleted", "Only deletions.", schema: ["const": "only"]), QueryParameters.reference("limit"),
            Self.query("select", "The columns, with one table.", schema: ["type": "string"]),
            QueryParameters.reference("or"), QueryParameters.reference("and"), QueryParameters.reference("truncate"),
            Self.query(
                "filters",
                "With one table, a condition for each column: `goals=gt.3`.",
                schema: ["type": "object", "additionalProperties": ComponentNames.shared("Filter")]
            ).with(["style": "form", "explode": true]), HeaderParameters.reference("Last-Event-ID"),
        ]
    }

    // MARK: Batches

    private var batch: JSONTree {
        let done = DescribedAnswers.json(
            "An answer an entry.",
            ComponentNames.shared("BatchAnswer"),
            headers: ["Preference-Applied"]
        )
        let parameters = ["Idempotency-Key", "Prefer", "Tidemark-Seen"].map(HeaderParameters.reference)
        return operation("batch", "Many writes at once", parameters: parameters).with([
            "requestBody": [
                "required": true, "content": ["application/json": ["schema": ComponentNames.shared("Batch")]],
            ],
            "responses": DescribedAnswers.answers([("200", done)], refusals: [406, 409, 412, 413, 415, 422, 428]),
        ])
    }

    // MARK: Parts

    private func operation(_ id: String, _ summary: String, parameters: [JSONTree]) -> JSONTree {
        [
            "operationId": .string(id), "tags": ["The zone"], "summary": .string(summary),
            "parameters": .array(parameters),
        ]
    }

    private static func query(_ name: String, _ description: String, schema: JSONTree) -> JSONTree {
        ["name": .string(name), "in": "query", "description": .string(description), "schema": schema]
    }
}
