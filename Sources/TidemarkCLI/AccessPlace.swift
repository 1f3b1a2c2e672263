import ArgumentParser
import Foundation
import TidemarkCore
import TidemarkEngine

/// The place of a server's users, for the commands of its operator; a server may run meanwhile.
struct AccessPlace: ParsableArguments {
    @Option(help: ArgumentHelp("The data folder of the server.", valueName: "folder")) var data: String?
    @Option(help: ArgumentHelp("The SQLite file that the server serves.", valueName: "file")) var file: String?
    @Option(help: ArgumentHelp("The PostgreSQL database that the server serves.", valueName: "url")) var store: String?
    @Flag(help: "Print JSON.") var json = false

    func validate() throws {
        guard [data, file, store].compactMap({ $0 }).count == 1 else {
            throw ValidationError("Name the server's place by one of --data DIR, --file FILE and --store URL.")
        }
    }

    var location: AccessLocation {
        if let data { return .folder(data) }
        if let file { return .file(file) }
        return .store(store ?? "")
    }

    /// Runs `body` in one transaction, with the time and a generator of secrets.
    ///
    /// Only a command that `makes` users may make a missing database of users. Otherwise a question would
    /// turn a server without users into one with users.
    func transaction<Success: Sendable>(
        makes: Bool = false,
        _ body: @escaping @Sendable (any AccessStatements, Int64, inout SystemRandomNumberGenerator) throws -> Success
    ) async throws -> Success {
        let now = SystemClock.milliseconds()
        return try await open(makes: makes) { database in
            try await database.transaction { statements in
                var generator = SystemRandomNumberGenerator()
                return try body(statements, now, &generator)
            }
        }
    }

    /// Runs `body` with the database of users, which it closes.
    func open<Success>(makes: Bool = false, _ body: (any AccessDatabase) async throws -> Success) async throws
        -> Success
    {
        try await requirePlace(makes: makes)
        let opened = try await location.open()
        let outcome = await Result { try await body(opened.database) }
        try opened.close()
        return try outcome.get()
    }

    func requireZone(_ zone: String) async throws {
        let zones = try await location.zones()
        guard zones.contains(zone) || zones.isEmpty else {
            throw TidemarkError(
                .unknownZone, "The server has no zone \(zone).", fix: "Choose one of its zones: \(Counted.list(zones))."
            )
        }
    }

    private func requirePlace(makes: Bool) async throws {
        switch location {
        case .folder(let folder):
            var isFolder: ObjCBool = false
            guard FileManager.default.fileExists(atPath: folder, isDirectory: &isFolder), isFolder.boolValue else {
                throw TidemarkError(
                    .unusableFile, "There is no data folder \(folder).",
                    fix: "Check the path; `tidemark serve --schema FILE.sql --data \(folder)` makes the folder.")
            }
        case .file(let file): try ExistingFile.require(file, fix: "Name the SQLite file that the server serves.")
        case .store: break
        }
        guard !makes else { return }
        guard try await location.hasUsers() else {
            throw TidemarkError(
                .invalidArgument, "The server has no users yet.",
                fix: "Add the first one by `tidemark user add NAME \(location.arguments)`.")
        }
    }
}
