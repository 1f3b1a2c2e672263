import Foundation

/// Reports attacks of a threat model that no test suite answers, and suites that do not exist.
///
/// An attack is a row of a table whose last column names suites in backticks.
func unansweredAttacks(_ path: String, _ page: String, suites: Set<String>) -> [Finding] {
    page.components(separatedBy: "\n").enumerated().flatMap { index, line -> [Finding] in
        guard line.hasPrefix("| "), !line.hasPrefix("| ---"), !line.hasSuffix("| test suites |") else { return [] }
        let last = line.split(separator: "|", omittingEmptySubsequences: false).dropLast().last ?? ""
        let names = last.matches(of: /`(\w+)`/).map { String($0.output.1) }
        guard !names.isEmpty else { return [Finding(path, index + 1, "name the test suite that shows the answer")] }
        return names.filter { !suites.contains($0) }.map { Finding(path, index + 1, "there is no test suite \($0)") }
    }
}

/// The suites that a file of tests declares.
func testSuites(_ text: SwiftText) -> [String] {
    let code = String(decoding: text.code, as: UTF8.self)
    return code.matches(of: /@Suite\b(?:\([^{]*?\))?[^{]*?\b(?:struct|class) (\w+)/).map { String($0.output.1) }
}
