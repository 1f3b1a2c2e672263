import Foundation
import TidemarkEmbedded
package import TidemarkEngine
import TidemarkPostgres
package import TidemarkTestSupport

/// A database of users in a store of either kind.
package final class AccessPlace: Sendable {
    private let folder: URL
    private let path: String
    private let database: TestDatabase?

    /// Makes a place without a database.
    package init(_ kind: Store) async throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        path = folder.appending(path: "access.sqlite").path
        database = kind == .postgres ? try await TestDatabase() : nil
    }

    deinit {
        do { try FileManager.default.removeItem(at: folder) } catch {
            // A folder left behind in the system's temporary folder harms no other test.
            return
        }
    }

    /// Opens the database as one more node or command.
    package func open() async throws -> any AccessDatabase {
        if let database { return try await AccessTransactions(address: database.address) }
        return try AccessFile(path: path)
    }

    /// A bench around a new place.
    package static func bench(_ kind: Store) async throws -> (bench: AccessBench, place: AccessPlace) {
        let place = try await AccessPlace(kind)
        return (AccessBench(try await place.open()), place)
    }
}
