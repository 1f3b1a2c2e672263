/// The targets of the server: what answers a request, from the socket to the files.
let serverTargets: Set<String> = [
    "TidemarkCore", "TidemarkEmbedded", "TidemarkEngine", "TidemarkPostgres", "TidemarkRedis", "TidemarkSQL",
    "TidemarkServer",
]

/// The targets in which the project works on itself: benchmarks, simulator, checker and test kit.
private let workshopTargets: Set<String> = [
    "TidemarkBench", "TidemarkDev", "TidemarkHistory", "TidemarkSimulation", "TidemarkTestSupport",
]

/// Whether a file is part of the product: Swift beneath `Sources`, except for ``workshopTargets``.
func isProduct(_ path: String) -> Bool {
    path.hasPrefix("Sources/") && path.hasSuffix(".swift") && !workshopTargets.contains(targetName(of: path))
}

/// The target of a source, the folder beneath `Sources`.
func targetName(of path: String) -> String {
    let parts = path.split(separator: "/")
    return parts.count > 1 ? String(parts[1]) : ""
}

/// The lines of files: code, comments and empty ones.
func lineCount(_ files: [(path: String, text: SwiftText)]) -> Int { files.map(\.text.lineCount).reduce(0, +) }
