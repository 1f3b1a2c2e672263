import Foundation

/// Reports groups of files of one target that all need each other, when the group is too large.
///
/// A file needs another one when it names a type that the other declares at its top level. Files
/// that need each other in a circle can be read only together: the rule says which ones, so that a
/// type can move to a file of its own.
func fileCycles(_ files: [(path: String, text: SwiftText)], most: Int = 5) -> [Finding] {
    let targets = Dictionary(grouping: files) { file in file.path.split(separator: "/").prefix(2).joined(separator: "/")
    }
    return targets.keys.sorted().flatMap { target in
        let needs = neededFiles(targets[target] ?? [])
        return stronglyConnected(needs).filter { $0.count > most }.map { group in
            let names = group.map { $0.split(separator: "/").last.map(String.init) ?? $0 }
            return Finding(
                group[0], 1, "\(group.count) files need each other, \(most) may: \(names.joined(separator: " "))")
        }
    }
}

/// By each file of a target, the other files whose types it names.
func neededFiles(_ files: [(path: String, text: SwiftText)]) -> [String: Set<String>] {
    let words = files.map { (path: $0.path, code: code($0.text)) }
    var homes: [String: String] = [:]
    for (path, code) in words { for name in declaredTypes(code) where homes[name] == nil { homes[name] = path } }
    let needs = words.map { path, code in
        let named = code.split { !($0.isLetter || $0.isNumber || $0 == "_") }.map(String.init)
        return (path, Set(named.compactMap { homes[$0] }).subtracting([path]))
    }
    return Dictionary(uniqueKeysWithValues: needs)
}

private func code(_ text: SwiftText) -> String { String(decoding: text.code, as: UTF8.self) }

/// The types that other files can name: those at column 0 that are not private.
private func declaredTypes(_ code: String) -> [String] {
    let kinds: Set<Substring> = ["struct", "class", "enum", "actor", "protocol", "typealias"]
    return code.split(separator: "\n").filter { $0.first?.isLetter == true }.compactMap { line in
        let words = line.split { !($0.isLetter || $0.isNumber || $0 == "_") }
        guard let at = words.firstIndex(where: kinds.contains), at + 1 < words.count,
            !words[..<at].contains(where: { ["private", "fileprivate", "extension"].contains($0) })
        else { return nil }
        return String(words[at + 1])
    }
}

/// The strongly connected components of a graph, each sorted.
///
/// The algorithm is that of Tarjan, "Depth-first search and linear graph algorithms", 1972.
func stronglyConnected(_ graph: [String: Set<String>]) -> [[String]] {
    var search = ComponentSearch(graph)
    for node in graph.keys.sorted() { search.visit(node) }
    return search.components
}

private struct ComponentSearch {
    let graph: [String: Set<String>]
    var components: [[String]] = []
    private var number: [String: Int] = [:]
    private var lowest: [String: Int] = [:]
    private var stack: [String] = []

    init(_ graph: [String: Set<String>]) { self.graph = graph }

    mutating func visit(_ node: String) {
        guard number[node] == nil else { return }
        let own = number.count
        number[node] = own
        var low = own
        stack.append(node)
        for next in (graph[node] ?? []).sorted() {
            if number[next] == nil {
                visit(next)
                low = min(low, lowest[next] ?? low)
            } else if stack.contains(next) {
                low = min(low, number[next] ?? low)
            }
        }
        lowest[node] = low
        guard low == own, let start = stack.firstIndex(of: node) else { return }
        components.append(stack[start...].sorted())
        stack.removeSubrange(start...)
    }
}
