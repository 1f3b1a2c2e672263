/// The modules of the package in order: each may import only those before it.
enum Layers {
    static let client = ["TidemarkCore", "TidemarkGzip", "TidemarkSQL", "Tidemark"]
    static let server = [
        "TidemarkEngine", "TidemarkIdentity", "TidemarkEmbedded", "TidemarkPostgres",
        "TidemarkRedis", "TidemarkDashboard", "TidemarkServer",
    ]
    static let commands = ["TidemarkTerminal", "TidemarkCLI"]
    static let tools = ["TidemarkHistory", "TidemarkTestSupport", "TidemarkSimulation", "TidemarkBench", "TidemarkDev"]
    static let inOrder =
        ["CZlib", "CLibPQ", "CHiredis", "CSQLiteConfig", "CMallocConfig", faults] + client + server + commands + tools

    /// The disk that fails on demand; nothing that ships in an app or a server may reach it.
    static let faults = "CFaultVFS"

    /// Libraries that only a server needs; an app must not have to compile them.
    static let serverLibraries = ["Hummingbird", "HummingbirdCore", "ArgumentParser"]
}

/// Reports imports that point the wrong way: from a client to the server, or upwards.
func wrongImports(_ path: String, _ text: SwiftText) -> [Finding] {
    let parts = path.split(separator: "/").map(String.init)
    guard parts.count > 2, parts[0] == "Sources" else { return [] }
    guard let rank = Layers.inOrder.firstIndex(of: parts[1]) else {
        return [Finding(path, 1, "`\(parts[1])` has no place in `Layers`: give it one")]
    }
    let isClient = Layers.client.contains(parts[1])
    return imports(of: text).compactMap { module, line in
        if isClient, (Layers.server + Layers.serverLibraries).contains(module) {
            return Finding(path, line, "a client target imports `\(module)`, which is the server's")
        }
        if !isClient, module == "Tidemark", Layers.server.contains(parts[1]) {
            return Finding(path, line, "a server target imports `Tidemark`, which is the device's")
        }
        if module == Layers.faults, !Layers.tools.contains(parts[1]) {
            return Finding(path, line, "`\(module)` breaks disks: only tools and tests import it")
        }
        guard let other = Layers.inOrder.firstIndex(of: module), other >= rank else { return nil }
        return Finding(path, line, "`\(parts[1])` stands below `\(module)`: import downwards only")
    }
}

/// The modules that a source imports, each with its line; `import struct A.B` imports `A`.
private func imports(of text: SwiftText) -> [(module: String, line: Int)] {
    let kinds = ["class", "enum", "func", "let", "protocol", "struct", "typealias", "var"]
    return offsets(of: "import", in: text.code).compactMap { offset in
        let line = text.line(at: offset)
        let words = text.line(line, of: text.code).split { $0 == " " || $0 == "." }.map(String.init)
        let after = words.drop { $0 != "import" }.dropFirst()
        return after.first { !kinds.contains($0) }.map { ($0, line) }
    }
}

/// Reports paths that are one and the same where letter case does not count, as on macOS.
func clashingPaths(_ paths: [String]) -> [Finding] {
    var seen: [String: String] = [:]
    return paths.flatMap(foldersAndFile).compactMap { path in
        guard let first = seen.updateValue(path, forKey: path.lowercased()), first != path else { return nil }
        return Finding(path, 1, "is `\(first)` where letter case does not count: rename one")
    }
}

/// `a/b/c` gives `a`, `a/b` and `a/b/c`.
private func foldersAndFile(of path: String) -> [String] {
    let parts = path.split(separator: "/")
    return parts.indices.map { parts[...$0].joined(separator: "/") }
}
