internal import Foundation
internal import TidemarkCore

/// The state of an account on a device: the stage of its user, and the owner of each file.
///
/// It is the file `account.json` in the folder of the files, and holds no token. Each change of it is one
/// durable step: after a crash the account is in the stage before or after.
struct AccountRegistry: Hashable, Sendable, Codable {
    struct File: Hashable, Sendable, Codable {
        let name: String
        /// The zone, as the file names it: `~` for the user's private one.
        let zone: String
        /// The user whose file it is; nil while it is nobody's.
        var user: String?
    }

    /// The server's scheme, host and port.
    let origin: String
    var stage = AccountStage.nobody
    var files: [File] = []
    /// The names of files to remove.
    var discarded: [String] = []

    func file(of user: String?, zone: String) -> File? { files.first { $0.user == user && $0.zone == zone } }

    mutating func give(_ file: File, to user: String) {
        for index in files.indices where files[index] == file { files[index].user = user }
    }

    mutating func discard(_ file: File) {
        files.removeAll { $0 == file }
        discarded.append(file.name)
    }

    // MARK: Storing

    private static let name = "account.json"

    private static func file(in folder: String) -> PrivateFile { PrivateFile(path: "\(folder)/\(name)") }

    /// Reads the registry of a folder, which is made if missing; throws if it is damaged or another server's.
    init(folder: String, address: ServerAddress) throws(TidemarkError) {
        let file = Self.file(in: folder)
        try file.makeFolder()
        self.init(origin: address.origin)
        do {
            guard let data = try file.read() else { return }
            self = try JSONDecoder().decode(Self.self, from: data)
        } catch {
            throw TidemarkError(
                .unusableFile, "The account in \(file.path) cannot be read.",
                fix: "The databases beside it are sound: open one by one with SyncEngine, or remove the folder.")
        }
        guard origin == address.origin else {
            throw TidemarkError(
                .invalidArgument, "The folder \(folder) belongs to the server \(origin).",
                fix: "Give each server a folder of its own.")
        }
    }

    private init(origin: String) { self.origin = origin }

    func store(in folder: String) throws {
        try Self.file(in: folder).write(json: self)
    }
}
