package import TidemarkCore

/// The description of a zone's interface for clients without rows, as OpenAPI 3.1.
///
/// A pure function of the schema. It describes the operations that the server has a route for, and no others.
package struct OpenAPIDocument: Sendable {
    private let schema: SyncSchema
    private let names: ComponentNames
    private let prefix: String
    private let routes: Set<String>

    /// Creates the description of a schema.
    ///
    /// - Parameters:
    ///   - schema: The zone's tables.
    ///   - prefix: The path before all paths, percent-encoded: empty, or `/zones/NAME`.
    ///   - routes: The server's routes beneath the prefix, such as `GET /tables/{table}`.
    package init(_ schema: SyncSchema, prefix: String, routes: Set<String>) {
        self.schema = schema
        self.prefix = prefix
        self.routes = routes
        names = ComponentNames(schema)
    }

    /// The document as JSON.
    package var json: String {
        let tree: JSONTree = [
            "openapi": "3.1.0", "info": info, "servers": [["url": .string(prefix.isEmpty ? "/" : prefix)]],
            // A token is needed only on a server with users.
            "security": [[:], ["bearer": []]], "tags": tags, "paths": paths, "components": components,
        ]
        return tree.text
    }

    private var tables: [SyncedTable] { schema.tables.sorted { $0.name < $1.name } }

    private var info: JSONTree {
        [
            "title": "The rows of a Tidemark zone", "version": .string(TidemarkVersion.current),
            "license": ["name": "Apache 2.0", "identifier": "Apache-2.0"],
            "description": """
            Every table has a path. A write says which state of the record it has seen, by `If-Match`. `/changes` \
            names what changed since a revision. The server refuses parameters that it does not know.
            """,
        ]
    }

    private var tags: JSONTree {
        .array(
            (["The zone"] + tables.map(\.name).filter { $0 != "The zone" }).map { ["name": .string($0)] }
        )
    }

    private var paths: JSONTree {
        let zone = ZoneOperations(schema: schema, names: names)
        let ofTables = tables.flatMap { TableOperations(table: $0, schema: schema, names: names).paths }
        return .members(
            (zone.paths + zone.pages + ofTables).compactMap { route, path, methods in
                let served = methods.filter { method, _ in
                    // A `GET` also answers to `HEAD`.
                    routes.contains("\(method == "head" ? "GET" : method.uppercased()) \(route)")
                }
                return served.isEmpty ? nil : (path, .members(served))
            }
        )
    }

    private var components: JSONTree {
        let shared = SharedSchemas.all + [("Changes", ZoneOperations(schema: schema, names: names).feed)]
        let ofTables = tables.flatMap { TableSchemas(table: $0, schema: schema, names: names).components }
        return [
            "schemas": .members(shared.map { ("tidemark.\($0)", $1) } + ofTables),
            "parameters": .members(QueryParameters.shared + HeaderParameters.shared),
            "responses": .members(DescribedAnswers.shared), "headers": .members(DescribedAnswers.headers),
            "securitySchemes": [
                "bearer": [
                    "type": "http", "scheme": "bearer",
                    "description":
                        "On a server with users: readers read, writers write, owners see devices and conflicts.",
                ]
            ],
        ]
    }
}
