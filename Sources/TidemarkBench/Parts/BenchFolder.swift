import Foundation

/// A folder of a benchmark's own, removed with its last user.
final class BenchFolder: Sendable {
    private let url: URL

    /// Makes the folder in another one.
    init(in parent: String) throws {
        url = URL(filePath: parent).appending(path: "tidemark-bench-\(RandomID.text())")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    /// A path for a new file.
    func path(_ name: String = RandomID.text()) -> String { url.appending(path: "\(name).sqlite").path }

    /// Copies a file that no process has open.
    func copy(of template: String) throws -> String {
        let path = path()
        try FileManager.default.copyItem(atPath: template, toPath: path)
        return path
    }

    deinit {
        // A file left in a folder for temporary files does no harm.
        try? FileManager.default.removeItem(at: url)
    }
}
