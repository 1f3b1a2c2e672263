internal import Foundation
internal import TidemarkCore
internal import TidemarkSQL

/// Tokens in a JSON file that only its owner can read.
///
/// ```json
/// {"https://sync.example.org:443": {"token": "tmd_…", "user": "anna", "issued": 1, "expires": 2, …}}
/// ```
///
/// Several processes may use the file at the same time. They lock the file with the suffix `.lock`
/// beside it, which stays empty.
public struct FileTokenStore: TokenStore {
    private let file: PrivateFile

    /// Makes a store in the file at `path`; nothing is read or written yet.
    public init(path: String) { file = PrivateFile(path: path) }

    /// Reads the token of a server; nil if the file is missing.
    public func token(of origin: String) throws -> StoredToken? { try read()[origin] }

    /// Replaces the file by one with the new token; the caller has the lock for replacing tokens.
    public func store(_ token: StoredToken?, of origin: String) throws {
        var tokens = try read()
        guard tokens[origin] != token else { return }
        tokens[origin] = token
        try file.write(json: tokens)
    }

    /// Takes a lock of the system on the lock file.
    @concurrent public func lock(_ purpose: TokenLock.Purpose) async throws -> TokenLock? {
        switch purpose {
        case .sending:
            // Without the file there is no token to send, and a request alone makes no files.
            guard FileManager.default.fileExists(atPath: file.path) else { return TokenLock {} }
            return try await lockFile(LOCK_SH)
        case .replacing(let waits):
            try file.makeFolder()
            return try await lockFile(waits ? LOCK_EX : LOCK_EX | LOCK_NB)
        }
    }

    private func lockFile(_ operation: Int32) async throws -> TokenLock? {
        let lockPath = file.path + ".lock"
        return try await blocking { () throws(TidemarkError) in
            let descriptor = open(lockPath, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
            guard descriptor >= 0 else { throw TidemarkError.unwritable(lockPath) }
            while flock(descriptor, operation) != 0 {
                let code = errno
                if code == EINTR { continue }
                close(descriptor)
                guard code == EWOULDBLOCK else {
                    throw TidemarkError.unwritable(lockPath, String(cString: strerror(code)))
                }
                return nil
            }
            return TokenLock { close(descriptor) }
        }
    }

    // MARK: The file

    private func read() throws(TidemarkError) -> [String: StoredToken] {
        do {
            guard let data = try file.read() else { return [:] }
            // The error's text may hold a part of the file.
            return try JSONDecoder().decode([String: StoredToken].self, from: data)
        } catch let problem as PrivateFile.Problem {
            switch problem {
            case .readableByOthers:
                throw TidemarkError(
                    .unusableFile, "Other users of this machine can read the tokens in \(file.path).",
                    fix: "Run `chmod 600 \(file.path)`. If others use this machine, sign out and sign in again.")
            case .unusable(let reason): throw unusable(reason)
            }
        } catch { throw unusable("is damaged") }
    }

    private func unusable(_ reason: String) -> TidemarkError {
        TidemarkError(
            .unusableFile, "The file with this machine's tokens, \(file.path), \(reason).",
            fix: "Remove it, and sign in again.")
    }
}
