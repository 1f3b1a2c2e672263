import Foundation
import TidemarkServer

/// Where snapshot files lie: beside the zone's file, under names that tell whose they are.
struct SnapshotPlace: Sendable {
    private let directory: String
    private let stem: String
    private let process = ProcessInfo.processInfo.processIdentifier

    init(besides zonePath: String) {
        let url = URL(fileURLWithPath: zonePath)
        directory = url.deletingLastPathComponent().path
        stem = ".\(url.lastPathComponent).snapshot-"
    }

    /// The path of this process's n-th file of a zone in a state: a snapshot, or a delta.
    ///
    /// The epoch tells zones of several databases apart, which may share name and folder.
    func path(of zone: ZoneState, build: Int, since revision: Int64? = nil) -> String {
        let history = "\(zone.epoch.prefix(18))-\(zone.revision)-\(zone.schema.prefix(8))"
        let kind = revision.map { "-since-\($0)" } ?? ""
        return "\(directory)/\(stem)\(process)-\(history)\(kind)-\(build).gz"
    }

    /// Removes the files of servers that were killed.
    func removeLeftovers() {
        do {
            for name in try FileManager.default.contentsOfDirectory(atPath: directory) {
                guard name.hasPrefix(stem), let owner = owner(of: name), !isRunning(owner) else {
                    continue
                }
                removeIfThere("\(directory)/\(name)")
            }
        } catch {
            // Leftovers cost disk space only; a folder that cannot be read fails where it matters.
            return
        }
    }

    private func owner(of name: String) -> Int32? {
        name.dropFirst(stem.count).split(separator: "-").first.flatMap { Int32($0) }
    }

    /// Whether a process exists, also when it belongs to somebody else.
    private func isRunning(_ process: Int32) -> Bool {
        kill(process, 0) == 0 || errno == EPERM
    }
}
