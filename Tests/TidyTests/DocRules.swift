/// Reports error codes without a heading in the page of errors, and headings of codes gone since.
///
/// `source` is where the codes are declared, `page` the page that explains each under `### code`.
func unexplainedCodes(in source: String, page: String) -> [Finding] {
    let declared = source.matches(of: /ErrorCode\(rawValue: "(\w+)"\)/).map { String($0.output.1) }
    let headings = page.split(separator: "\n", omittingEmptySubsequences: false).enumerated().filter {
        $0.element.hasPrefix("### ")
    }.map { (line: $0.offset + 1, code: String($0.element.dropFirst(4))) }
    let missing = declared.filter { code in !headings.contains { $0.code == code } }.map {
        Finding("Docs/ERRORS.md", 1, "explain the error \($0) under a heading `### \($0)`")
    }
    let dead = headings.filter { !declared.contains($0.code) }.map {
        Finding("Docs/ERRORS.md", $0.line, "no error has the code \($0.code) any more")
    }
    return missing + dead
}

/// Reports metrics that the page for operators does not explain.
func unexplainedMetrics(in source: String, page: String) -> [Finding] {
    source.matches(of: /"(tidemark_[a-z_]+)"/).map { String($0.output.1) }.filter {
        !page.contains("`\($0)`") && !page.contains("`\($0){")
    }.map { Finding("Docs/OPERATIONS.md", 1, "does not say what `\($0)` means") }
}
