import Foundation

/// The working tree that these tests read.
enum Repository {
    /// The root, three levels above this file.
    static let root = URL(filePath: #filePath).resolvingSymlinksInPath().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// Every file that a person wrote, sorted: relative path and text.
    static let files: [TextFile] = {
        do { return try paths(under: "").compactMap(TextFile.init(path:)) } catch {
            preconditionFailure("cannot list the repository at \(root.path): \(error)")
        }
    }()

    /// The Swift files, scanned once for all rules.
    static let swiftFiles: [(path: String, text: SwiftText)] = files.filter { $0.path.hasSuffix(".swift") }.map {
        ($0.path, SwiftText($0.text))
    }

    /// The Markdown files.
    static let markdownFiles = files.filter { $0.path.hasSuffix(".md") }

    private static let generated: Set<String> = [".build", ".cache", ".git", ".swiftpm", "DerivedData", "xcuserdata"]

    private static func paths(under folder: String) throws -> [String] {
        let names = try FileManager.default.contentsOfDirectory(atPath: root.appending(path: folder).path)
        return try names.sorted().filter { !generated.contains($0) }.flatMap { name in
            let path = folder.isEmpty ? name : "\(folder)/\(name)"
            return isFolder(path) ? try paths(under: path) : [path]
        }
    }

    private static func isFolder(_ path: String) -> Bool {
        var isFolder: ObjCBool = false
        let exists = FileManager.default.fileExists(atPath: root.appending(path: path).path, isDirectory: &isFolder)
        return exists && isFolder.boolValue
    }
}

/// A file of the repository that holds UTF-8 text.
struct TextFile {
    let path: String
    let text: String

    /// Reads the file; `nil` when it is no text, as compressed data and databases are not.
    init?(path: String) {
        guard let data = FileManager.default.contents(atPath: Repository.root.appending(path: path).path),
            !data.contains(0), let text = String(data: data, encoding: .utf8)
        else { return nil }
        self.path = path
        self.text = text
    }
}
