import Foundation
import Synchronization

/// A store's claim on its snapshot files in a folder: a locked file.
///
/// The system releases the lock whenever the process ends. The lock also works between containers, where process ids do
/// not. So snapshot files without a locked claim are leftovers. Safe to use from any thread.
package final class SnapshotClaim: Sendable {
    let folder: String
    /// Identifies the store's files among all others; it contains no full stop.
    let token = ProcessInfo.processInfo.globallyUniqueString
    /// The open file while the claim is locked.
    private let descriptor = Mutex<Int32?>(nil)

    private static let prefix = ".tidemark-snapshots-"
    private static let suffix = ".lock"

    /// Makes a claim that is not locked yet.
    package init(folder: String) { self.folder = folder }

    deinit { release() }

    /// Locks the claim; if it cannot create the file, building a snapshot fails, too, and reports the error.
    func hold() {
        descriptor.withLock { descriptor in
            guard descriptor == nil else { return }
            // Rename the file after locking it: other stores remove unlocked claims.
            let temporaryPath = path(of: token) + ".new"
            let file = open(temporaryPath, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            guard file >= 0 else { return }
            // On a file system without locks, every existing claim counts as locked.
            flock(file, LOCK_EX | LOCK_NB)
            rename(temporaryPath, path(of: token))
            descriptor = file
        }
    }

    /// Releases the claim after the files are removed.
    func release() {
        descriptor.withLock { descriptor in
            guard let file = descriptor else { return }
            removeIfThere(path(of: token))
            close(file)
            descriptor = nil
        }
    }

    /// Whether a running process has locked the claim of a token.
    func isHeld(_ token: some StringProtocol) -> Bool {
        let file = open(path(of: token), O_RDWR | O_CLOEXEC)
        guard file >= 0 else { return errno != ENOENT }
        defer { close(file) }
        return flock(file, LOCK_EX | LOCK_NB) != 0
    }

    /// Removes the unlocked claims among a folder's files.
    func removeLeftovers(among names: [String]) {
        for name in names where name.hasPrefix(Self.prefix) && name.hasSuffix(Self.suffix) {
            let token = name.dropFirst(Self.prefix.count).dropLast(Self.suffix.count)
            if !isHeld(token) { removeIfThere(path(of: token)) }
        }
    }

    private func path(of token: some StringProtocol) -> String { "\(folder)/\(Self.prefix)\(token)\(Self.suffix)" }
}
