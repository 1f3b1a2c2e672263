/// The sync state of a file at one moment: its identity, revision and laps.
///
/// A recall or snapshot applies to one state only. Another process may sync in between; then the
/// answer is outdated, and applying it could repeat changes that the server has committed meanwhile.
struct FileState: Hashable, Sendable {
    let device: String
    let user: String?
    let epoch: String?
    let revision: Int64
    let laps: Laps
}

extension FileState {
    init(_ file: DeviceFile) {
        self.init(
            device: file.device, user: file.user, epoch: file.epoch, revision: file.revision, laps: file.laps)
    }
}
