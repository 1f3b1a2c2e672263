import CSQLiteConfig

/// How much of what a request may have to undo stays in memory.
///
/// Each request runs in a savepoint. Of every page that it changes SQLite first keeps the old
/// content, 64 KiB of them in memory, which are 16 pages; a small change set changes some 25 of a
/// zone's file, and from the first request on that has more, each page of the group goes to a
/// temporary file: a fifth of the time that a small change set takes.
///
/// The setting is the process's, so it is a server's to make and not an app's, and it takes effect
/// where nobody has used SQLite before.
package enum StatementJournals {
    /// Less than SQLite's files take in one write, which is 128 KiB: more would fail as if the disk
    /// were full when the journal moves into its file.
    private static let bytesInMemory: Int32 = 120 << 10

    /// Makes the setting, once.
    package static let keepInMemory: Void = {
        // In a process that uses SQLite already, all is as it was.
        _ = tidemark_keep_statement_journals(bytesInMemory)
    }()
}
