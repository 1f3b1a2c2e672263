import GRDB

/// The sync state of a file at one moment: its identity, revision and laps.
///
/// A recall or snapshot applies to one state only. Another process may sync in between; then the
/// answer is outdated, and applying it could repeat changes that the server has committed meanwhile.
struct FileState: Hashable, Sendable {
    private let device: String
    private let user: String?
    private let epoch: String?
    private let revision: Int64
    private let laps: Laps

    init(_ file: DeviceFile, in db: Database) throws {
        device = file.device
        user = file.user
        epoch = file.epoch
        revision = file.revision
        laps = try Laps(db)
    }
}
