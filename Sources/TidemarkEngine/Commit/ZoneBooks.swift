package import TidemarkCore

/// What a transaction on a zone knows from its books: verdicts, fingerprints and the log.
package protocol ZoneBooks: RowReader {
    /// Returns the last revision of an earlier epoch; nil if the zone never had this epoch.
    func end(of epoch: String) throws -> Int64?

    /// Returns the fingerprint of the zone's rows at a revision; nil when it is no longer stored.
    ///
    /// The fingerprint of the latest revision is always available.
    func fingerprint(at revision: Int64) throws -> Fingerprint?

    /// Computes the fingerprint of the latest revision from all rows, and stores it.
    func recomputeFingerprint() throws

    /// Logs the changes that other programs made in the tables as one revision, if there are any.
    func absorbOutsideChanges() throws

    /// Returns the author's copies of change sets with a verdict: JSON by id.
    ///
    /// With the extent `ids`, a change set committed as sent has only the ids of new records.
    func authorsCopies(of ids: [String], _ extent: SyncRequest.Echo) throws -> [String: String]

    /// Returns the revisions of change sets and of all their ancestors.
    ///
    /// - Throws: `predecessorMissing` when one is unknown.
    func ancestry(of ids: [String]) throws -> Ancestry

    /// Lends ids of tables to a device, which no other device and no server assigns.
    ///
    /// - Returns: The lent ids of each table; none for a table whose ids the server cannot lend.
    func lend(_ tables: [String]) throws -> [String: [LentIDs]]

    /// Runs one of several requests of this transaction in a savepoint.
    ///
    /// If it throws, its effects are undone and its error is returned. The effects of the only request of a
    /// transaction, with `alone`, may stay: the caller rolls back.
    ///
    /// - Throws: The error if the transaction cannot continue: the database is unreachable, its
    ///   disk is full, or it has rolled back. Then no request of the transaction has an effect.
    func isolated<Success>(alone: Bool, _ body: () throws -> Success) throws -> Result<Success, any Error>

    /// Runs `body` in a savepoint; if it throws, its effects are undone.
    func attempt<Result>(_ body: () throws -> Result) throws -> Result

    /// Returns the notes of this device's overruled values up to a revision, oldest first, JSON each.
    ///
    /// Deletes the notes up to the number `cursor`, which the device has applied.
    func overruledNotes(device: String, after cursor: Int64, through revision: Int64, limit: Int) throws -> [String]

    /// Removes the bodies of revisions up to `horizon`, and the data that only they need.
    ///
    /// Older bases can still be judged: the log keeps the last author and time of each column of
    /// each existing record.
    func compact(to horizon: Int64) throws

    /// Whether a change set of a device is among these revisions.
    func hasRevision(by device: String, after revision: Int64, through last: Int64) throws -> Bool

    /// Returns the missed change sets, oldest first, as the device receives them.
    func catchUp(_ missed: MissedRevisions) throws -> CatchUp
}
