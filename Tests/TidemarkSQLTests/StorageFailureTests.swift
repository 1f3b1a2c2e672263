import GRDB
import Testing
import TidemarkCore
import TidemarkSQL

/// The errors shown when SQLite cannot use a file.
@Suite struct StorageFailureTests {
    @Test(arguments: [
        (ResultCode.SQLITE_FULL, ErrorCode.storageFailed, "is full"),
        (.SQLITE_IOERR_SHMSIZE, .storageFailed, "is full"),
        (.SQLITE_READONLY, .storageFailed, "read-only for this user"),
        (.SQLITE_READONLY_DBMOVED, .storageFailed, "read-only for this user"),
        (.SQLITE_NOTADB, .fileDamaged, "not a SQLite database"), (.SQLITE_CORRUPT, .fileDamaged, "is damaged"),
        (.SQLITE_IOERR_READ, .storageFailed, "does not read or write"), (.SQLITE_BUSY, .unavailable, "locked"),
    ]) func `a full disk, a read-only file and a file of another kind have distinct errors`(
        _ result: ResultCode, _ code: ErrorCode, _ words: String
    ) {
        let error = TidemarkError(storage: DatabaseError(resultCode: result), of: "a.sqlite")
        #expect(error?.code == code)
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("a.sqlite") == true)
    }
}
