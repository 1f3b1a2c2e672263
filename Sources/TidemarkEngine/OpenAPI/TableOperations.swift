import TidemarkCore

/// The operations on one table's records, by their paths.
struct TableOperations {
    let table: SyncedTable
    let schema: SyncSchema
    let names: ComponentNames

    /// The routes that the operations belong to, each with its path for this table.
    var paths: [(route: String, path: String, methods: [(String, JSONTree)])] {
        let list = "/tables/\(RecordPath.encode(table.name))"
        let keys = ComponentNames.keyParameters(of: table)
        let record = "\(list)/\(keys.map { "{\($0)}" }.joined(separator: ","))"
        return [
            ("/tables/{table}", list, [("get", self.list), ("post", create)]),
            (
                "/tables/{table}/{key}", record,
                [("get", read), ("head", head), ("patch", change), ("put", replace), ("delete", delete)]
            ),
            ("/tables/{table}/{key}/history", "\(record)/history", [("get", history)]),
            ("/compare/{table}", "/compare/\(RecordPath.encode(table.name))", [("post", compare)]),
        ]
    }

    // MARK: Reading

    private var list: JSONTree {
        let page = DescribedAnswers.json("A page.", names.reference(table.name, "page"), headers: ["ETag", "Link"])
        let next: JSONTree = [
            "next": ["operationId": .string(id("list")), "parameters": ["query.after": "$response.body#/next"]]
        ]
        let links = next.with(links(to: ["get", "history"], from: "$response.body#/records/0"))
        let parameters =
            QueryParameters.filters(of: table) + [selection, QueryParameters.order(of: table)]
            + QueryParameters.ofLists + [HeaderParameters.reference("If-None-Match")]
        return operation("list", "A page of \(table.name)", parameters: parameters).with([
            "responses": DescribedAnswers.answers(
                [("200", page.with(["links": links]))],
                refusals: [413, 422],
                isConditional: true
            )
        ])
    }

    private var read: JSONTree {
        let part = names.reference(table.name, "part")
        return operation("get", "One record of \(table.name)", parameters: readParameters).with([
            "responses": DescribedAnswers.answers(
                [("200", DescribedAnswers.json("The record.", part, headers: ["ETag"]))],
                refusals: [413, 422],
                isConditional: true
            )
        ])
    }

    private var head: JSONTree {
        operation("head", "The version of one record of \(table.name)", parameters: readParameters).with([
            "responses": DescribedAnswers.answers(
                [("200", DescribedAnswers.bare("The record is there.", headers: ["ETag"]))],
                refusals: [413, 422],
                isConditional: true
            )
        ])
    }

    private var readParameters: [JSONTree] {
        keyParameters + [
            selection, QueryParameters.reference("truncate"), HeaderParameters.reference("If-None-Match"),
        ]
    }

    private var history: JSONTree {
        let answer = DescribedAnswers.json("The changes.", ComponentNames.shared("History"))
        return operation(
            "history",
            "The changes of one record of \(table.name)",
            parameters: keyParameters + ZoneOperations.reportPage
        )
        .with(["responses": DescribedAnswers.answers([("200", answer)], refusals: [422])])
    }

    private var compare: JSONTree {
        let answer = DescribedAnswers.json("The differences.", ComponentNames.shared("ComparisonAnswer"))
        return operation("compare", "How a client's rows of \(table.name) differ", parameters: []).with([
            "requestBody": Self.body(ComponentNames.shared("Comparison")),
            "responses": DescribedAnswers.answers([("200", answer)], refusals: [413, 415, 422]),
        ])
    }

    // MARK: Writing

    private var create: JSONTree {
        let parameters = ["Idempotency-Key", "Prefer"].map(HeaderParameters.reference)
        let answer = DescribedAnswers.json(
            "The record is created.",
            names.reference(table.name),
            headers: ["Location", "ETag", "Preference-Applied"]
        )
        let found = links(to: ["get", "history"], from: "$response.body#")
        let made = DescribedAnswers.bare(
            "The record is created: after `Prefer: return=minimal`.",
            headers: ["Location", "ETag", "Preference-Applied"]
        )
        let changeable = links(
            to: ["change", "replace", "delete"],
            from: "$response.body#",
            seen: [("header.If-Match", "$response.header.ETag")]
        )
        return operation("create", "Creates a record of \(table.name)", parameters: parameters).with([
            "requestBody": Self.body(names.reference(table.name, "new")),
            "responses": DescribedAnswers.answers(
                [("201", answer.with(["links": found.with(changeable)])), ("204", made)],
                refusals: Self.refusals
            ),
        ])
    }

    private var change: JSONTree {
        let content = JSONTree.members(
            ["application/json", "application/merge-patch+json"].map {
                ($0, ["schema": names.reference(table.name, "change")])
            }
        )
        return operation(
            "change",
            "Changes columns of a record of \(table.name)",
            parameters: writeParameters("If-Match")
        ).with([
            "requestBody": ["required": true, "content": content],
            "responses": DescribedAnswers.answers(written, refusals: Self.refusals + [412, 428]),
        ])
    }

    private var replace: JSONTree {
        let body: JSONTree = ["anyOf": [names.reference(table.name, "whole"), names.reference(table.name, "new")]]
        let created = DescribedAnswers.json(
            "The record is created.",
            names.reference(table.name),
            headers: ["Location", "ETag", "Preference-Applied"]
        )
        return operation(
            "replace",
            "Replaces or creates a record of \(table.name)",
            parameters: writeParameters("If-Match-or-new", "If-None-Match-any")
        ).with([
            "requestBody": Self.body(body),
            "responses": DescribedAnswers.answers(written + [("201", created)], refusals: Self.refusals + [412, 428]),
        ])
    }

    private var delete: JSONTree {
        let done = DescribedAnswers.bare("The record is gone.", headers: ["Preference-Applied"])
        return operation("delete", "Deletes a record of \(table.name)", parameters: writeParameters("If-Match")).with([
            "responses": DescribedAnswers.answers([("204", done)], refusals: [406, 409, 412, 422, 428])
        ])
    }

    private var written: [(String, JSONTree)] {
        let headers = ["ETag", "Location", "Preference-Applied"]
        return [
            ("200", DescribedAnswers.json("The record.", names.reference(table.name), headers: headers)),
            ("204", DescribedAnswers.bare("Done: after `Prefer: return=minimal`.", headers: headers)),
        ]
    }

    private static let refusals = [406, 409, 413, 415, 422]

    private func writeParameters(_ conditions: String...) -> [JSONTree] {
        keyParameters + (conditions + ["Idempotency-Key", "Prefer", "Tidemark-Seen"]).map(HeaderParameters.reference)
    }

    private static func body(_ schema: JSONTree) -> JSONTree {
        ["required": true, "content": ["application/json": ["schema": schema]]]
    }

    /// Links to the operations on a record, whose key an answer has.
    private func links(to verbs: [String], from record: String, seen: [(String, JSONTree)] = []) -> JSONTree {
        let keys = zip(ComponentNames.keyParameters(of: table), table.key).map { parameter, column in
            let member = RecordText.member(of: column).replacing("~", with: "~0").replacing("/", with: "~1")
            return ("path.\(parameter)", JSONTree.string("\(record)/\(member)"))
        }
        return .members(verbs.map { ($0, ["operationId": .string(id($0)), "parameters": .members(keys + seen)]) })
    }

    // MARK: Parts

    private func id(_ verb: String) -> String { "\(verb)_\(names[table.name])" }

    private func operation(_ verb: String, _ summary: String, parameters: [JSONTree]) -> JSONTree {
        [
            "operationId": .string(id(verb)), "tags": [.string(table.name)], "summary": .string(summary),
            "parameters": .array(parameters),
        ]
    }

    private var selection: JSONTree {
        let parents = table.references.filter { schema.byName[$0.parent] != nil }.flatMap(\.columns)
        let children = TableSchemas(table: table, schema: schema, names: names).children
        return QueryParameters.selection(of: table, relations: Set(parents + children).sorted())
    }

    private var keyParameters: [JSONTree] {
        zip(ComponentNames.keyParameters(of: table), table.key).map { parameter, column in
            let schema: JSONTree =
                table.keyKind == .integer
                ? ["type": "integer", "minimum": .integer(.min), "maximum": .integer(.max)]
                : ["type": "string", "minLength": 1]
            return [
                "name": .string(parameter), "in": "path", "required": true, "schema": schema,
                "description": .string("\(column) of the key; a value that is no text or number as its JSON."),
            ]
        }
    }
}
