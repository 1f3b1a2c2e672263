import Foundation
import Synchronization

/// A store's claim on the snapshot files that it keeps in a folder: a file that it holds locked.
///
/// The system takes the lock back when the process ends, however it ends, and shows it to processes
/// that do not see each other's numbers, as in two containers. So files whose claim nobody holds
/// are left over. Safe to use from any thread.
package final class SnapshotClaim: Sendable {
    /// The folder of the files.
    let folder: String
    /// What tells the store's files from those of all others; it has no full stop in it.
    let token = ProcessInfo.processInfo.globallyUniqueString
    /// The open file, while the claim is held.
    private let descriptor = Mutex<Int32?>(nil)

    private static let prefix = ".tidemark-snapshots-"
    private static let suffix = ".lock"

    /// Makes a claim that is not held yet.
    package init(folder: String) { self.folder = folder }

    deinit { release() }

    /// Holds the claim from now on.
    ///
    /// Where no file can be made, no snapshot can either, and whoever builds one says so.
    func hold() {
        descriptor.withLock { descriptor in
            guard descriptor == nil else { return }
            // It gets its name when it is locked: until then others would take it for left over.
            let new = path(of: token) + ".new"
            let made = open(new, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            guard made >= 0 else { return }
            // Where the file system has no locks, every claim that is there counts as held.
            flock(made, LOCK_EX | LOCK_NB)
            rename(new, path(of: token))
            descriptor = made
        }
    }

    /// Gives the claim up, when the files are gone.
    func release() {
        descriptor.withLock { descriptor in
            guard let held = descriptor else { return }
            removeIfThere(path(of: token))
            close(held)
            descriptor = nil
        }
    }

    /// Whether somebody who is alive holds the claim of a token.
    func isHeld(_ token: some StringProtocol) -> Bool {
        let other = open(path(of: token), O_RDWR | O_CLOEXEC)
        guard other >= 0 else { return errno != ENOENT }
        defer { close(other) }
        return flock(other, LOCK_EX | LOCK_NB) != 0
    }

    /// Removes the claims among a folder's files that nobody holds.
    func removeLeftovers(among names: [String]) {
        for name in names where name.hasPrefix(Self.prefix) && name.hasSuffix(Self.suffix) {
            let token = name.dropFirst(Self.prefix.count).dropLast(Self.suffix.count)
            if !isHeld(token) { removeIfThere(path(of: token)) }
        }
    }

    private func path(of token: some StringProtocol) -> String { "\(folder)/\(Self.prefix)\(token)\(Self.suffix)" }
}
