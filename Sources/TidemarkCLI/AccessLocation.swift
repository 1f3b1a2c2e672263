import Foundation
import TidemarkCore
import TidemarkEmbedded
import TidemarkEngine
import TidemarkPostgres

/// The place of a server's users, tokens and members.
enum AccessLocation: Hashable {
    case folder(String)
    case file(String)
    case store(String)

    struct Opened {
        let database: any AccessDatabase
        let close: @Sendable () throws -> Void
    }

    /// The arguments by which a command finds this place; a database's address may hold a password.
    var arguments: String {
        switch self {
        case .folder(let path): "--data \(Self.shellWord(path))"
        case .file(let path): "--file \(Self.shellWord(path))"
        case .store: "--store URL"
        }
    }

    private static func shellWord(_ text: String) -> String {
        let isPlain = text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "/._-+".contains($0)) }
        return isPlain && !text.isEmpty ? text : "'\(text.replacing("'", with: "'\\''"))'"
    }

    /// Whether a server with users was here before, or an operator has added some.
    func hasUsers() async throws -> Bool {
        switch self {
        case .folder(let folder): DataPlaces(folder: folder).hasUsers
        case .file(let file): DataPlaces(file: file).hasUsers
        case .store(let address): try await connecting { try await AccessPresence.hasUsers(address: address) }
        }
    }

    /// The zones; empty if no server has made them yet.
    func zones() async throws -> [String] {
        switch self {
        case .folder(let folder): [EmbeddedStore.zoneName] + DataPlaces(folder: folder).zoneNames
        case .file(let file): [EmbeddedStore.zoneName] + DataPlaces(file: file).zoneNames
        case .store(let address): try await connecting { try await AccessPresence.zones(address: address) }
        }
    }

    /// Opens the database, and makes it where it is missing.
    func open() async throws -> Opened {
        switch self {
        case .folder(let folder): return try openFile(DataPlaces(folder: folder).users)
        case .file(let file): return try openFile(DataPlaces(file: file).users)
        case .store(let address):
            let database = try await connecting { try await AccessTransactions(address: address) }
            return Opened(database: database) {}
        }
    }

    private func openFile(_ path: String) throws -> Opened {
        let file = try AccessFile(path: path)
        return Opened(database: file) { try file.close() }
    }

    private func connecting<Result>(_ body: () async throws -> Result) async throws -> Result {
        do { return try await body() } catch let failure as PostgresFailure {
            throw TidemarkError(
                .unusableFile,
                "The database of users cannot be opened: \(failure.message.trimmingCharacters(in: .whitespacesAndNewlines))",
                fix: "Check the address, that the server runs, and that the role may create schemas and tables.")
        }
    }
}
