import Foundation

/// Reports pages that have no title, or more than one.
func titles(_ path: String, _ text: String) -> [Finding] {
    let titles = prose(of: text).filter { $0.line.hasPrefix("# ") }
    if titles.isEmpty { return [Finding(path, 1, "no title: start with one `# ` line")] }
    return titles.dropFirst().map { Finding(path, $0.number, "a second title: use `## `") }
}

/// Reports relative links to files or headings that do not exist.
///
/// `anchors` gives the headings that a path can be linked at, and `nil` when there is no such file.
func brokenLinks(_ path: String, _ text: String, anchors: (String) -> Set<String>?) -> [Finding] {
    let folder = path.split(separator: "/").dropLast()
    return prose(of: text).flatMap { line, number in
        targets(in: line).compactMap { target in
            guard !target.contains("://"), !target.hasPrefix("mailto:") else { return nil }
            let parts = target.components(separatedBy: "#")
            let file = parts[0].isEmpty ? path : resolve(parts[0], in: folder)
            guard let known = anchors(file) else {
                return Finding(path, number, "the link to `\(target)` leads nowhere")
            }
            guard parts.count > 1, !known.contains(parts[1]) else { return nil }
            return Finding(path, number, "`\(file)` has no heading `#\(parts[1])`")
        }
    }
}

/// The anchors of a page's headings, as they are made on the web: `## A, b!` is `a-b`.
func headingAnchors(of text: String) -> Set<String> {
    Set(
        prose(of: text).filter { $0.line.hasPrefix("#") }.map { heading in
            heading.line.drop { $0 == "#" }.trimmingCharacters(in: .whitespaces).lowercased().filter {
                $0.isLetter || $0.isNumber || "-_ ".contains($0)
            }.replacingOccurrences(of: " ", with: "-")
        }
    )
}

/// The lines outside fenced code, with code spans taken out.
func prose(of text: String) -> [(line: String, number: Int)] {
    var isFenced = false
    var lines: [(line: String, number: Int)] = []
    for (index, line) in text.components(separatedBy: "\n").enumerated() {
        if line.drop(while: { $0 == " " }).hasPrefix("```") {
            isFenced.toggle()
        } else if !isFenced {
            lines.append((line, index + 1))
        }
    }
    return lines
}

/// What a line links to: `[text](target)`, `[name]: target`, `href="target"`, `src="target"`.
private func targets(in line: String) -> [String] {
    let line = line.replacing(/`[^`]*`/, with: "code")
    return [/\]\(([^)\s]+)[^)]*\)/, /^\s*\[[^\]]+\]:\s+(\S+)/, /(?:href|src)="([^"]+)"/].flatMap { pattern in
        line.matches(of: pattern).map { String($0.output.1) }
    }
}

private func resolve(_ target: String, in folder: [Substring].SubSequence) -> String {
    var parts = folder.map(String.init)
    for part in target.split(separator: "/").map(String.init) where part != "." {
        if part == ".." { _ = parts.popLast() } else { parts.append(part) }
    }
    return parts.joined(separator: "/")
}
