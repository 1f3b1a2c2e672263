import Foundation
package import GRDB
package import TidemarkCore

extension TidemarkError {
    /// The error for a file or folder that cannot be written; without a reason, for that of `errno`.
    package static func unwritable(_ path: String, _ reason: String = String(cString: strerror(errno))) -> TidemarkError
    {
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        return TidemarkError(
            FileManager.default.fileExists(atPath: folder) ? .storageFailed : .unusableFile,
            "Cannot write \(path): \(reason).",
            fix: "Check that the directory exists and can be written, and that the disk has room.")
    }

    /// Translates a SQLite error about a disk, a file or a lock; nil for every other error.
    package init?(storage error: DatabaseError, of file: String) {
        let words = error.message ?? error.resultCode.description
        switch error.resultCode {
        // SQLite reports this code only if the disk has no room for the shared memory.
        case .SQLITE_FULL,
            _ where error.extendedResultCode == .SQLITE_IOERR_SHMSIZE:
            self.init(
                .storageFailed, "The disk of \(file) is full.",
                fix: "Make room, then try again. Nothing was changed, and unsent changes are kept.")
        case .SQLITE_NOTADB:
            self.init(
                .fileDamaged,
                "\(file) is not a SQLite database: it does not begin like one.",
                fix: """
                    Check the path. If it was one, keep it as it is; ERRORS.md says under \
                    fileDamaged what can be saved.
                    """)
        case .SQLITE_READONLY:
            self.init(
                .storageFailed,
                "\(file) cannot be written: it, or its folder, is read-only for this user.",
                fix: """
                    Check the permissions and how the disk is mounted, then try again. Nothing was \
                    changed, and unsent changes are kept.
                    """)
        case .SQLITE_CORRUPT:
            self.init(
                .fileDamaged, "The content of \(file) is damaged: \(words).",
                fix: "Keep the file as it is; ERRORS.md says under fileDamaged what can be saved.")
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            self.init(.unavailable, "Another program holds \(file) locked.", fix: "Try again in a moment.")
        case .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_PROTOCOL, .SQLITE_PERM, .SQLITE_NOLFS:
            let code = error.extendedResultCode.rawValue
            self.init(
                .storageFailed,
                "The disk does not read or write \(file): \(words) (SQLite's code \(code)).",
                fix: """
                    Check the disk and the permissions, then try again. Nothing was changed, and unsent changes \
                    are kept.
                    """)
        default: return nil
        }
    }

    /// Translates SQLite's storage errors, and decoding errors of the engine's own bookkeeping; returns others as is.
    package static func translateStorageError(_ error: any Error, of file: String) -> any Error {
        if error is DecodingError || error is RowDecodingError { return unreadable("The bookkeeping", in: file) }
        guard let storage = error as? DatabaseError, let translation = TidemarkError(storage: storage, of: file) else {
            return error
        }
        return translation
    }

    /// The error `fileDamaged` of content that Tidemark never writes; `file` is nil where the caller names it.
    package static func unreadable(_ what: String, in file: String? = nil) -> TidemarkError {
        TidemarkError(
            .fileDamaged, "\(what)\(file.map { " in \($0)" } ?? "") cannot be read.",
            fix: "Keep the file as it is; ERRORS.md says under fileDamaged what can be saved.")
    }

    package static func translatingStorageErrors<Result>(of file: String, _ work: () throws -> Result) throws -> Result
    { do { return try work() } catch { throw translateStorageError(error, of: file) } }
}
