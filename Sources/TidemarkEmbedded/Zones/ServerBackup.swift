public import Foundation
import GRDB
import TidemarkCore
import TidemarkSQL

/// The places of a server's files: the main zone, the other zones, the users.
public struct DataPlaces: Hashable, Sendable {
    package let main: String
    /// The folder of the other zones' files.
    package let zones: String
    package let users: String

    /// The files in a data folder.
    public init(folder: String) {
        main = "\(folder)/\(EmbeddedStore.zoneName).sqlite"
        zones = "\(folder)/zones"
        users = "\(folder)/\(Self.usersName)"
    }

    /// A served file, and the files beside it.
    public init(file: String) {
        main = file
        zones = "\(file)-zones"
        // A data folder's zone file has the folder's users, so that they count when the zone is served alone.
        let url = URL(filePath: file)
        let inFolder = url.deletingLastPathComponent().appending(path: Self.usersName).path
        let isFolderZone = url.lastPathComponent == "\(EmbeddedStore.zoneName).sqlite"
        users = isFolderZone && FileManager.default.fileExists(atPath: inFolder) ? inFolder : "\(file)-access"
    }

    private static let usersName = "access.sqlite"

    /// The same names in another folder.
    func moved(to folder: String) -> Self {
        let place = { (path: String) in "\(folder)/\(URL(filePath: path).lastPathComponent)" }
        return DataPlaces(main: place(main), zones: place(zones), users: place(users))
    }

    private init(main: String, zones: String, users: String) {
        self.main = main
        self.zones = zones
        self.users = users
    }

    package var hasUsers: Bool { FileManager.default.fileExists(atPath: users) }
    /// Whether there are users or other zones.
    package var hasMore: Bool { hasUsers || !zoneNames.isEmpty }

    /// The names of the other zones that have a file.
    package var zoneNames: [String] { Self.zoneNames(in: zones) }

    /// The names of the zones that have a file in a folder, by name.
    static func zoneNames(in folder: String) -> [String] {
        // Without the folder there are none.
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0.hasSuffix(".sqlite") }.map { String($0.dropLast(".sqlite".count)) }
            .filter(ZoneFiles.isName).sorted()
    }
}

/// A copy of a server's data while the server runs: users, main zone and all other zones.
///
/// Each file is copied at one commit of its own and checked. The users come first, so no member is in the copy whose
/// zone was made later. The copy appears under its name when it is complete.
public struct ServerBackup: Sendable {
    /// The number of zones in the copy, the main one included.
    public let zones: Int
    /// The rows of all zones' synced tables.
    public let rows: Int
    /// Whether the copy has a file of users.
    public let hasUsers: Bool
    /// The zones that could not be copied, each with the reason.
    public let missing: [String]

    /// Copies a server's data into a folder.
    ///
    /// A zone that cannot be copied is named, and the others are copied.
    ///
    /// - Parameters:
    ///   - source: The places of the files; a server may serve them meanwhile.
    ///   - out: The path of the new folder; nothing may exist there.
    ///   - newID: Makes random ids for scratch folders.
    ///   - progress: Receives the number of copied zones and the total; may throw to stop.
    /// - Throws: ``TidemarkCore/TidemarkError``, `DatabaseError`, or the error of `progress`; then there is no copy.
    public init(
        of source: DataPlaces, at out: String, newID: () -> UUID,
        progress: @escaping (_ done: Int, _ total: Int) throws -> Void
    ) throws {
        guard FileManager.default.fileExists(atPath: source.main) else {
            throw TidemarkError(
                .unusableFile, "There is no \(source.main).",
                fix: "Name the folder that `tidemark serve --data` has, or the file that it serves.")
        }
        let scratch = try ScratchFolder(for: out, id: newID())
        defer { scratch.remove() }
        let copy = source.moved(to: scratch.path("data"))
        try Self.makeFolder(scratch.path("data"))
        try Self.makeFolder(copy.zones)
        hasUsers = source.hasUsers
        if hasUsers { try Self.copyPlain(source.users, to: copy.users) }
        let names = source.zoneNames
        var rows = try ZoneBackup(of: source.main, at: copy.main, id: newID()) { _, _ in try progress(0, names.count) }
            .rows
        var missing: [String] = []
        for (index, name) in names.enumerated() {
            try progress(index, names.count)
            let file = "\(source.zones)/\(name).sqlite"
            do {
                rows += try Self.copyZone(file, to: "\(copy.zones)/\(name).sqlite", id: newID())
            } catch  where !(error is CancellationError) {
                // A zone that was deleted meanwhile is no longer a part of the data.
                guard FileManager.default.fileExists(atPath: file) else { continue }
                missing.append("\(name): \((error as? TidemarkError)?.message ?? "\(error)")")
            }
        }
        self.rows = rows
        self.missing = missing
        zones = 1 + names.count - missing.count
        try scratch.place("data", at: out)
    }

    /// Copies a zone's file, and returns its rows; the file of a zone that was never used has no bookkeeping yet.
    private static func copyZone(_ path: String, to out: String, id: UUID) throws -> Int {
        guard try isServed(path) else {
            try copyPlain(path, to: out)
            return 0
        }
        return try ZoneBackup(of: path, at: out, id: id) { _, _ in try Task.checkCancellation() }.rows
    }

    private static func isServed(_ path: String) throws -> Bool {
        try TidemarkError.translatingStorageErrors(of: path) {
            try ZoneBackup.reading(path) { try $0.tableExists("tidemark_zone") }
        }
    }

    private static func copyPlain(_ path: String, to out: String) throws {
        try PrivateFile.make(out)
        try TidemarkError.translatingStorageErrors(of: path) {
            try ZoneBackup.copy(path, to: out, check: { _ in }) { _, _ in try Task.checkCancellation() }
            let problem = try ZoneBackup.reading(out) { try String.fetchOne($0, sql: "PRAGMA quick_check(1)") }
            guard problem == "ok" else {
                throw TidemarkError(
                    .fileDamaged, "\(path) is damaged: \(problem ?? "").",
                    fix: "Keep the file and older backups; see fileDamaged in ERRORS.md.")
            }
        }
    }

    private static func makeFolder(_ path: String) throws {
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    }
}
