import Foundation

/// The paths of snapshot files: beside the zone's file, with the owning store's token in the name.
struct SnapshotPlace: Sendable {
    private let claim: SnapshotClaim
    private let stem: String

    /// Makes paths beside a zone's file, under `claim` or a new claim on the folder.
    init(besides zonePath: String, claim: SnapshotClaim?) {
        let url = URL(fileURLWithPath: zonePath)
        self.claim = claim ?? SnapshotClaim(folder: url.deletingLastPathComponent().path)
        stem = ".\(url.lastPathComponent).snapshot-"
    }

    /// Returns the path of this store's n-th file: a snapshot, or a delta since `revision`.
    func path(of zone: ZoneState, build: Int, since revision: Int64? = nil) -> String {
        claim.hold()
        let kind = revision.map { "-since-\($0)" } ?? ""
        return "\(claim.folder)/\(stem)\(claim.token).\(zone.revision)\(kind)-\(build).gz"
    }

    /// Removes the files of servers that were killed.
    func removeLeftovers() {
        do {
            let names = try FileManager.default.contentsOfDirectory(atPath: claim.folder)
            for name in names where name.hasPrefix(stem) {
                let owner = name.dropFirst(stem.count).prefix { $0 != "." }
                if !claim.isHeld(owner) { removeIfThere("\(claim.folder)/\(name)") }
            }
            claim.removeLeftovers(among: names)
        } catch {
            // Leftovers only cost disk space; an unreadable folder fails the next build.
            return
        }
    }

    func leave() { claim.release() }
}
