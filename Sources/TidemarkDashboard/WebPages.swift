public import TidemarkCore

/// The pages that a server shows: the dashboard, and the small client for pages of others, both part of the program.
public struct WebPages: Sendable {
    /// The files of this program.
    public static let embedded = WebPages(source: .memory(Files(embeddedFiles)), hasDashboard: true)

    /// What a browser may do with these files: load them, and ask their own server.
    public static let contentSecurityPolicy = """
        default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
        base-uri 'none'; form-action 'none'; frame-ancestors 'none'
        """

    /// The name of the small client's file.
    public static let clientName = "tidemark.js"
    /// The name of the file that a browser asks for first.
    public static let startName = "index.html"

    private enum Source: Sendable {
        case memory(Files)
        case folder(PagesFolder)
    }

    private let source: Source
    /// Whether the server shows the dashboard, too.
    public let hasDashboard: Bool

    private init(source: Source, hasDashboard: Bool) {
        self.source = source
        self.hasDashboard = hasDashboard
    }

    /// Takes the files from a folder, read again for each request; throws `unusableFile` if a file is missing.
    public init(folder: String) throws(TidemarkError) {
        let folder = PagesFolder(path: folder, names: Self.embeddedFiles.map(\.name))
        _ = try folder.files()
        self.init(source: .folder(folder), hasDashboard: true)
    }

    /// These pages without the dashboard: only the small client.
    public var withoutDashboard: WebPages { WebPages(source: source, hasDashboard: false) }

    /// Returns the files as they are now; throws `unusableFile` if the folder lacks one.
    public func files() throws(TidemarkError) -> Files {
        switch source {
        case .memory(let files): files
        case .folder(let folder): try folder.files()
        }
    }
}

extension WebPages {
    /// One file.
    public struct File: Hashable, Sendable {
        /// The name, without a folder.
        public let name: String
        /// The bytes.
        public let content: [UInt8]

        /// The value of `Content-Type`.
        public var mediaType: String {
            switch name.split(separator: ".").last {
            case "html": "text/html; charset=utf-8"
            case "css": "text/css; charset=utf-8"
            default: "text/javascript; charset=utf-8"
            }
        }
    }

    /// All files of one version.
    public struct Files: Sendable {
        private let byName: [String: File]
        /// The value of `ETag` for each of them, so that a browser never mixes two versions.
        public let entityTag: String

        init(_ files: [File]) {
            byName = Dictionary(files.map { ($0.name, $0) }) { first, _ in first }
            var hash = RunningHash()
            for file in files { hash.take(Array("\(file.name) \(file.content.count)\n".utf8) + file.content) }
            // Weak, because the answer with gzip has the same tag.
            entityTag = "W/\"\(hash.text.prefix(16))\""
        }

        /// Returns the file with a name.
        public func file(named name: String) -> File? { byName[name] }

        /// All files, by name.
        public var all: [File] { byName.values.sorted { $0.name < $1.name } }
    }
}
