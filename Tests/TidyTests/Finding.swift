import Foundation
import Testing

/// One place in the tree that breaks a house rule.
///
/// Every rule is a pure function from a path and its text to findings, so that each is
/// itself tested with a bad sample: a rule that cannot fail is worth nothing.
struct Finding: Equatable {
    /// The path, relative to the root of the repository.
    let path: String

    /// The line, counted from 1.
    let line: Int

    /// The broken rule, and what to write instead.
    let message: String

    init(_ path: String, _ line: Int, _ message: String) {
        self.path = path
        self.line = line
        self.message = message
    }
}

/// Fails the running test once per finding, at the offending line itself.
func report(_ findings: [Finding]) {
    for finding in findings {
        Issue.record(
            "\(finding.path):\(finding.line): \(finding.message)",
            sourceLocation: SourceLocation(
                fileID: "Tidemark/\(finding.path)", filePath: Repository.root.appending(path: finding.path).path,
                line: finding.line, column: 1))
    }
}
