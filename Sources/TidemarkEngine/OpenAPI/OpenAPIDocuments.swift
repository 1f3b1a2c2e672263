import Synchronization

/// The latest documents, each rendered once, while other requests for it wait; safe to use from any task.
package final class OpenAPIDocuments: Sendable {
    /// The facts on which a document depends, besides the program.
    package struct Key: Hashable, Sendable {
        private let schema: String
        private let prefix: String

        /// Creates a key of a schema's hash, and of the path before all paths.
        package init(schema: String, prefix: String) {
            self.schema = schema
            self.prefix = prefix
        }
    }

    private let latest: Mutex<LeastRecent<Key, [UInt8]>>

    /// Creates an empty collection of at most `countMax` documents.
    package init(countMax: Int = 16) { latest = Mutex(LeastRecent(countMax: countMax)) }

    /// Returns the document of a key; `render` makes it if it is not among the latest.
    package func json(of key: Key, _ render: () -> String) -> [UInt8] {
        latest.withLock { latest in
            if let json = latest.use(key) { return json }
            let json = Array(render().utf8)
            latest.set(json, for: key)
            return json
        }
    }
}
