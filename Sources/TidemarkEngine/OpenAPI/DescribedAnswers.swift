/// The answers of operations: their statuses, headers and problems.
enum DescribedAnswers {
    /// The components of refusals, by name.
    static let shared: [(String, JSONTree)] =
        refusals.map { status, text in
            var content: JSONTree = ["application/problem+json": ["schema": ComponentNames.shared("Problem")]]
            // The refusal of a web page comes before the server looks at the path.
            if status == 403 { content = content.with(["application/json": ["schema": ["type": "object"]]]) }
            return (
                name(status),
                JSONTree.members([("description", .string(text))]).with(headers(of: status)).with([
                    "content": content
                ])
            )
        } + [("NotModified", ["description": "The client has this state already.", "headers": ["ETag": tag]])]

    /// The header components.
    static let headers: [(String, JSONTree)] = [
        ("ETag", header("The version: `\"355-1b60e08c5d2e91aa\"`. `If-None-Match` and `If-Match` take it.")),
        ("Location", header("The path of the new record.")), ("Link", header("The next page: `<…>; rel=\"next\"`.")),
        ("Preference-Applied", header("The preferences that the server follows.")),
        ("Retry-After", header("The pause before the next attempt, in seconds.", type: "integer")),
        ("WWW-Authenticate", header("The way to sign in.")),
    ]

    /// The statuses of refusals that any operation may have.
    static let everywhere = [400, 401, 403, 404, 429, 503]

    /// Returns the answers of an operation.
    static func answers(_ done: [(String, JSONTree)], refusals: [Int], isConditional: Bool = false) -> JSONTree {
        let unchanged: [(String, JSONTree)] =
            isConditional ? [("304", ["$ref": "#/components/responses/NotModified"])] : []
        let refused = Set(everywhere + refusals).sorted().map { status in
            ("\(status)", ["$ref": .string("#/components/responses/\(name(status))")] as JSONTree)
        }
        return .members(done + unchanged + refused)
    }

    /// Returns an answer with a body in JSON.
    static func json(_ description: String, _ schema: JSONTree, headers names: [String] = []) -> JSONTree {
        bare(description, headers: names).with(["content": ["application/json": ["schema": schema]]])
    }

    /// Returns an answer without a body.
    static func bare(_ description: String, headers names: [String] = []) -> JSONTree {
        let fields = names.map { ($0, ["$ref": .string("#/components/headers/\($0)")] as JSONTree) }
        return JSONTree.members([("description", .string(description))]).with(
            names.isEmpty ? [:] : ["headers": .members(fields)]
        )
    }

    // MARK: Private

    private static let refusals: [(Int, String)] = [
        (
            400,
            "The question is wrong: `invalidFilter`, `invalidCursor`, `unknownColumn`, `invalidValue`, …"
        ),
        (401, "The request has no valid token: `signInNeeded`."),
        (403, "The client may not do this: `notAllowed`, `originRefused`, `accessRevoked`."),
        (404, "There is none, or the client may not see it: `unknownTable`, `unknownRecord`, `unknownZone`."),
        (406, "The answer is JSON, which `Accept` excludes: `notAcceptable`."),
        (
            409,
            "The write breaks a rule, and the `reasons` say which: `conflict`; or `changeSetIdReused`, `revisionAhead`."
        ),
        (410, "List the tables again: `snapshotRequired`, `epochMismatch`."),
        (412, "The record is in another state, `current`: `preconditionFailed`."),
        (413, "The body, or the answer, is beyond a limit: `tooLarge`."),
        (415, "The server reads JSON only: `unsupportedMediaType`, `unsupportedEncoding`."),
        (422, "`constraintViolated`, `brokenReference`, `incompleteRecord`, `queryTooCostly`."),
        (428, "The write does not say which state it has seen: `preconditionRequired`."),
        (429, "The client has sent too many requests: `rateLimited`."),
        (503, "The server cannot answer now: `unavailable`, `storageFailed`."),
    ]

    private static func name(_ status: Int) -> String { "Problem\(status)" }

    private static let tag: JSONTree = ["$ref": "#/components/headers/ETag"]

    private static func headers(of status: Int) -> JSONTree {
        switch status {
        case 401: ["headers": ["WWW-Authenticate": ["$ref": "#/components/headers/WWW-Authenticate"]]]
        case 429, 503: ["headers": ["Retry-After": ["$ref": "#/components/headers/Retry-After"]]]
        default: [:]
        }
    }

    private static func header(_ description: String, type: String = "string") -> JSONTree {
        ["description": .string(description), "schema": ["type": .string(type)]]
    }
}
