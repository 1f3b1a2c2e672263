import Foundation
import TidemarkServer

/// Where snapshot files lie: beside the zone's file, under names that tell whose they are.
struct SnapshotPlace: Sendable {
    private let claim: SnapshotClaim
    private let stem: String

    /// Keeps files beside a path, under a claim on its folder: one of its own if none is given.
    init(besides zonePath: String, claim: SnapshotClaim?) {
        let url = URL(fileURLWithPath: zonePath)
        self.claim = claim ?? SnapshotClaim(folder: url.deletingLastPathComponent().path)
        stem = ".\(url.lastPathComponent).snapshot-"
    }

    /// The path of this store's n-th file of a zone in a state: a snapshot, or a delta.
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
            // Leftovers cost disk space only; a folder that cannot be read fails where it matters.
            return
        }
    }

    /// Gives up the claim, when all files are removed.
    func leave() { claim.release() }
}
