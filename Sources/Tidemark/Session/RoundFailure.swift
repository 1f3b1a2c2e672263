package import GRDB
package import TidemarkCore
import TidemarkSQL

/// What the device does in its file after an error; ``SyncMachine`` decides.
extension SyncRound {
    /// Reacts to an error, and throws it if it ends the sync; `step` met it, or none if the next one could not begin.
    package mutating func handle(_ error: TidemarkError, during step: Step?, in db: Database) throws -> [DeviceEvent] {
        let file = try DeviceFile(db)
        let cause: SyncMachine.Cause =
            switch step {
            case .send(let outgoing)?: .request(outgoing, isOpen: outgoing.exchange.isOpen(file.laps))
            case .askHistory(let question)?: .history(question)
            default: .other
            }
        switch machine.received(.failed(error, cause, at: file.revision)) {
        case .giveUp(let question): return try giveUp(question, after: error, in: db)
        case .divide(let error): return try divideLarge(error, in: db) ? [] : park(error, in: db)
        case .park(let error): return try park(error, in: db)
        case .mend(let error): return try mend(error, in: db)
        case .renewIdentity:
            try Self.refuseForeignEdits(in: db)
            try db.inTransaction(.immediate) {
                try Laps.renew(newID: environment.newID, in: db)
                // The acknowledged change sets are another user's, and are not offered again.
                try db.execute(sql: "DELETE FROM tidemark_kept_record; DELETE FROM tidemark_kept")
                return .commit
            }
        case .leave(let error):
            var fresh: Set<String> = []
            if case .send(let outgoing)? = step { fresh = outgoing.freshChangeSets }
            return try leave(after: error, neverSent: fresh, in: db)
        case .checkFile: try Self.refuseDamage(db)
        case .fail(let error): throw error.code == .unknownZone ? try Self.missingZone(error, in: db) : error
        default: break
        }
        return []
    }

    /// Makes an outbox fit to be sent that the device itself refuses to send: divides a change set, or parks it.
    private func mend(_ error: TidemarkError, in db: Database) throws -> [DeviceEvent] {
        if try divideLarge(error, in: db) { return [] }
        if let id = error.place.id, try Outbox.contains(id, in: db) { return try park(error, in: db) }
        guard error.code == .tooLarge else { throw error }
        // The rollback of the request undid the drain that made this change set. Drain again.
        try Transaction.withoutForeignKeys(db) { try RoundContext(prepared: db, at: moment).drain() }
        return []
    }

    /// Takes the zone out of the file; the next step ends the sync with the error.
    private mutating func leave(after error: TidemarkError, neverSent: Set<String>, in db: Database) throws
        -> [DeviceEvent]
    {
        // The server refused the only request that had them.
        let events = try LeaveZone(db: db, neverSent: neverSent, moment: moment).leave()
        try tell(.left(error))
        return events
    }

    /// Refuses to send edits that wait in a file whose device is another user's than the token.
    ///
    /// A file that names its user reaches this only with that user's token.
    private static func refuseForeignEdits(in db: Database) throws {
        guard try DeviceFile(db).user == nil,
            try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM tidemark_changeset)") ?? false
        else { return }
        throw TidemarkError(
            .accountMismatch, "The edits that wait in this file were made on a device of another user than the token.",
            fix: "Sync once with a token of that user. Then the file can be used with this one.")
    }

    /// Returns the error for a zone that the server does not show; it tells a person whose file has joined more.
    private static func missingZone(_ error: TidemarkError, in db: Database) throws -> TidemarkError {
        let file = try DeviceFile(db)
        guard file.epoch != nil else { return error }
        return TidemarkError(
            .unknownZone, "The server has no zone \(file.zone) any more that you may read.",
            fix: "Nothing was removed here, and unsent changes are kept. Ask the zone's owner, or sign in as a member.")
    }

    /// Throws `fileDamaged` if SQLite finds damage, which can make a correct answer inapplicable.
    private static func refuseDamage(_ db: Database) throws {
        let report = try String.fetchOne(db, sql: "PRAGMA integrity_check(1)")
        guard let report, report != "ok" else { return }
        throw TidemarkError(
            .fileDamaged, "The file is damaged, so no answer can be applied: \(report).",
            fix: "Keep the file as it is; ERRORS.md says under fileDamaged what can be saved.")
    }

    /// Divides a change set that is too large, if other programs made it; returns whether it has parts to send.
    private func divideLarge(_ error: TidemarkError, in db: Database) throws -> Bool {
        guard error.code == .tooLarge, error.place.key == nil, let id = error.place.id else { return false }
        var isDivided = false
        try db.inTransaction(.immediate) {
            let schema = try DeviceFile(db).schema
            try EngineConnection.prepare(db, schema: schema)
            isDivided = try DivideLargeSet(db: db, schema: schema, limits: core.limits).divide(
                id, newID: environment.newID)
            return .commit
        }
        return isDivided
    }

    /// Parks the change set that caused an error: removes its effects from the tables, and replays the others.
    private func park(_ error: TidemarkError, in db: Database) throws -> [DeviceEvent] {
        var error = error
        let large = DivideLargeSet(db: db, schema: try DeviceFile(db).schema, limits: core.limits)
        if error.code == .tooLarge, let id = error.place.id, let size = try large.size(of: id) {
            error = error.describing(size)
        }
        let reason = Conflict.Reason(
            table: error.place.table ?? "", key: error.place.key, columns: error.place.column.map { [$0] } ?? [],
            rule: error.code.rawValue, message: "\(error.message) \(error.fix)")
        return try Transaction.withoutForeignKeys(db) {
            let round = try RoundContext(db, at: moment)
            try round.drain()
            return try round.rebase { try round.parking.parkUnsent([error.place.id ?? "": "[\(reason.json)]"]) }
        }
    }
}
