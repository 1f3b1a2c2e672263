internal import Foundation

/// Hides from a comparison of two runs what differs between any two runs: epochs, their hashes and the time of commits.
///
/// Names, tokens and ids come from seeded generators, and the clock of users and zones stands still, so they
/// are compared as they are.
enum SecrecyMask {
    /// Returns an answer as text.
    static func text(of reply: SecrecyReply, to request: String) -> String {
        let isSnapshot = reply.header("content-type") == "application/gzip"
        // The epoch decides how short a compressed text is.
        let isCompressed = isSnapshot || reply.header("content-encoding") != nil
        let changing = isCompressed ? ["content-length", "content-range"] : []
        let headers = reply.headers.filter { !changing.contains($0.name) }.map { name, value in
            // These hashes have the epoch in them.
            name == "etag" ? "etag" : "\(name): \(value)"
        }
        let body = isSnapshot ? reply.rows.joined(separator: "\n") : reply.text
        return text("\(request)\n\(reply.status)\n\(headers.joined(separator: "\n"))\n\(body)")
    }

    /// Returns a text without epochs.
    static func text(_ text: String) -> String {
        text.replacing(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/, with: "UUID")
            .replacing(/UUID-(\d+)-[0-9a-f]{32}/) { "UUID-\($0.output.1)-HASH" }
            .replacing(/\b1[789]\d{14}\b/, with: "TIME").replacing(/\d+-[A-Za-z0-9_-]{16}"/, with: "TAG\"")
    }
}
