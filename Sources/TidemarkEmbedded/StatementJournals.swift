import CSQLiteConfig

/// Raises the size up to which SQLite keeps statement journals in memory.
///
/// Each request runs in a savepoint. SQLite saves the old content of every page that the request
/// changes, up to 64 KiB (16 pages) in memory. A small change set changes some 25 pages of a zone's
/// file. From the first request above the limit on, SQLite writes each page of the group to a
/// temporary file, which costs a fifth of the time of a small change set.
///
/// The setting applies to the whole process, so servers set it and apps do not. It takes effect
/// only if the process has not used SQLite before.
package enum StatementJournals {
    /// Below the 128 KiB that SQLite writes at once: with more, the journal's move into a file fails like a full disk.
    private static let bytesInMemory: Int32 = 120 << 10

    package static let keepInMemory: Void = {
        // Has no effect in a process that already uses SQLite.
        _ = tidemark_keep_statement_journals(bytesInMemory)
    }()
}
