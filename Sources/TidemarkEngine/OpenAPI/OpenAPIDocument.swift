package import TidemarkCore

/// The description of a zone's interface for clients without rows, as OpenAPI 3.1.
///
/// A pure function of the schema. It describes the operations that the server has a route for, and no others. Its text
/// is `openapi.json`; what depends on the tables is ``TableParts``.
package struct OpenAPIDocument: Sendable {
    private let schema: SyncSchema
    private let prefix: String
    private let routes: Set<String>

    /// `prefix` is empty or `/zones/NAME`, percent-encoded; `routes` are those beneath it, as `GET /tables/{table}`.
    package init(_ schema: SyncSchema, prefix: String, routes: Set<String>) {
        self.schema = schema
        self.prefix = prefix
        self.routes = routes
    }

    package var json: String {
        let components = ComponentNames(schema)
        let tables = schema.tables.sorted { $0.name < $1.name }
        let names = tables.map(\.name)
        var holes = Self.template
        holes["server"] = .string(prefix.isEmpty ? "/" : prefix)
        holes["version"] = .string(TidemarkVersion.current)
        holes["sources"] = .strings(RevisionRecord.Source.allCases.map(\.rawValue))
        holes["records of a page"] = .integer(Int64(ListQuery.limitMax))
        holes["records at once"] = .integer(Int64(ListQuery.allMax))
        holes["entries of a batch"] = .integer(Int64(WriteBatch.entriesMax))
        holes["tags"] = .array(names.filter { $0 != "The zone" }.map { ["name": .string($0)] })
        holes["tables"] = .strings(names)
        let listed = names.filter { !$0.contains(",") }
        holes["table of a list"] = listed.isEmpty ? ["type": "string"] : ["enum": .strings(listed)]
        holes["change"] =
            tables.isEmpty
            ? ["type": "object"] : ["anyOf": .array(names.map { components.reference($0, "changed") })]
        var paths = served("pathsOfZone", holes)
        var schemas: [JSONTree.Member] = []
        for table in tables {
            let parts = TableParts(table: table, schema: schema, components: components).holes
            var ofTable = holes.merging(parts) { $1 }
            ofTable["select"] = holes["select"]?.filled(parts)
            paths += served("pathsOfTable", ofTable)
            schemas += holes["schemasOfTable"]?.filled(ofTable).members ?? []
        }
        holes["paths"] = .object(paths)
        holes["schemas"] = .object(schemas)
        return (holes["document"]?.filled(holes) ?? [:]).text
    }

    /// The parts of the template by their names, which are also holes of the other parts.
    private static let template = Dictionary(
        uniqueKeysWithValues: JSONTree(trusted: PackageResources.openapi_json).members.map { ($0, $1) })

    /// The paths of a part of the template, with the operations that the server has a route for.
    private func served(_ part: String, _ holes: [String: JSONTree]) -> [JSONTree.Member] {
        let paths = Self.template[part]?.members ?? []
        return paths.compactMap { path in
            // The path of a page ends in a slash, its route does not. A `GET` also answers to `HEAD`.
            let route = path.name.hasSuffix("/") ? String(path.name.dropLast()) : path.name
            let methods = path.value.members.filter { method in
                routes.contains("\(method.name == "head" ? "GET" : method.name.uppercased()) \(route)")
            }
            guard !methods.isEmpty else { return nil }
            let name = ["table", "key"].reduce(path.name) { name, variable in
                name.replacing("{\(variable)}", with: holes["\(variable) in a path"]?.words ?? "")
            }
            return (name, JSONTree.object(methods).filled(holes))
        }
    }
}
