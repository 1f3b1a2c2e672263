/// A protocol by which the rules of the server use a store.
///
/// It is declared in `TidemarkEngine`, and a type of a store (``storeTargets``) conforms to
/// it, itself or by a protocol that inherits it.
struct SeamProtocol {
    /// What a store has to write.
    struct Requirement {
        let name: String
        /// The type of a function's result; empty without one, and for a property.
        let result: String
    }

    let name: String
    /// The protocols that it inherits.
    let inherited: Set<String>
    /// Its functions, properties, initializers and subscripts.
    let requirements: [Requirement]

    /// The targets that store: files, databases, and the bus and cache between servers.
    private static let storeTargets: Set<String> = ["TidemarkEmbedded", "TidemarkPostgres", "TidemarkRedis"]

    /// The protocols that a store implements, by name.
    static func seam(of files: [SourceWords]) -> [SeamProtocol] {
        let declared = files.filter { $0.target == "TidemarkEngine" }.flatMap { protocols(in: $0.words) }
        var wanted = files.filter { storeTargets.contains($0.target) }.reduce(into: Set<String>()) {
            $0.formUnion(conformances(in: $1.words))
        }
        for one in declared where wanted.contains(one.name) { wanted.formUnion(one.inherited) }
        return declared.filter { wanted.contains($0.name) }.sorted { $0.name < $1.name }
    }

    /// The functions whose result may have rows, keys or log entries: every type counts except for ``harmless``.
    ///
    /// The dialect of a store gives SQL only.
    var exits: [Requirement] {
        guard name != "RowDialect" else { return [] }
        return requirements.filter { requirement in
            requirement.result.split { !($0.isLetter || $0.isNumber || $0 == "_") }.contains {
                !Self.harmless.contains(String($0))
            }
        }
    }

    /// The types that have no rows: numbers, free ids, states, hashes, verdicts and declarations, results of a caller's
    /// own closure, and users.
    ///
    /// The last two words are labels of a result.
    private static let harmless: Set<String> = [
        "AccessRow", "Ancestry", "Bool", "ClosedRange", "CommitHead", "ConflictPolicy", "Error", "Exchange",
        "Fingerprint", "IDAnswer", "Int", "Int64", "Result", "RowEstimate", "SchemaDocument", "Success", "SyncRequest",
        "Verdict",
        "ZoneDigest", "ZoneRevision", "ZoneState", "any", "columns", "table",
    ]

    /// The types after the colon of each declaration.
    private static func conformances(in words: [CodeWord]) -> Set<String> {
        let kinds: Set<String> = ["struct", "class", "enum", "actor", "extension"]
        return words.indices.filter { kinds.contains(words[$0].text) }.reduce(into: []) { found, start in
            let head = words[(start + 1)...].prefix { $0.depth == words[start].depth }
            found.formUnion(head.drop { $0.next != UInt8(ascii: ":") }.dropFirst().map(\.text))
        }
    }

    private static func protocols(in words: [CodeWord]) -> [SeamProtocol] {
        words.indices.filter { words[$0].text == "protocol" && words[$0].depth == 0 }.map { start in
            let head = words[(start + 1)...].prefix { $0.depth == 0 }
            let body = words[(head.endIndex)...].prefix { $0.depth > 0 }
            return SeamProtocol(
                name: head.first?.text ?? "", inherited: Set(head.dropFirst().map(\.text)),
                requirements: requirements(in: Array(body)))
        }
    }

    private static func requirements(in body: [CodeWord]) -> [Requirement] {
        let kinds: Set<String> = ["func", "var", "init", "subscript"]
        // They stand before the next requirement, so a scan by words meets them after the result of this one.
        let modifiers: Set<String> = ["discardableResult", "mutating", "nonisolated", "static"]
        let starts = body.indices.filter { body[$0].depth == 1 && kinds.contains(body[$0].text) }
        return starts.enumerated().map { number, start in
            let end = number + 1 < starts.count ? starts[number + 1] : body.endIndex
            let own = body[start..<end]
            let result = own.filter { $0.isResult && !modifiers.contains($0.text) }
            return Requirement(
                name: own.dropFirst().first?.text ?? "", result: result.map(\.text).joined(separator: " "))
        }
    }
}

/// The routes that a member of a zone uses about its rows, by the path in the call of `Route`.
///
/// A route about a zone's people has a path that a variable begins.
func zoneRoutes(in files: [(path: String, text: SwiftText)]) -> [String] {
    let call = #/Route\(\s*\.\w+,\s*"(?<path>\/[^"]*)",\s*for:\s*\.members\(/#
    return files.filter { $0.path.hasPrefix("Sources/TidemarkServer/") }.flatMap { file in
        String(decoding: file.text.bytes, as: UTF8.self).matches(of: call).map { String($0.path) }
    }
}
