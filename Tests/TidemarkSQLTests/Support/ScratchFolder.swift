import Foundation

/// A folder that goes away with the test.
final class ScratchFolder: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    func path(_ name: String) -> String { url.appending(path: name).path }

    deinit {
        // A leftover in the temporary folder does no harm, and a deinit cannot report it.
        try? FileManager.default.removeItem(at: url)
    }
}
