import GRDB

/// What a device's file has of its server, and the server may have of it, at one moment.
///
/// A question about the file, and a snapshot for it, are about this state. Once another process has
/// taken something in or sent something, the file is in another one: what comes then is older than
/// what is there, or knows nothing of what was committed meanwhile, which would be done again.
struct FileState: Hashable, Sendable {
    private let device: String
    private let epoch: String?
    private let revision: Int64
    private let laps: Laps

    /// Reads the state that a file is in.
    init(_ file: DeviceFile, in db: Database) throws {
        device = file.device
        epoch = file.epoch
        revision = file.revision
        laps = try Laps(db)
    }
}
