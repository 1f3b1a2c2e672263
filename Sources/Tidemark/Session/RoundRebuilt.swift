package import GRDB
import TidemarkCore
import TidemarkSQL

/// The comparison of tables that a migration has rebuilt.
///
/// The zone's rows come with a snapshot. If the zone has gone on meanwhile, the device keeps the snapshot's rows and
/// asks for exactly the revisions up to it. Then both are at one revision, however busy the zone is.
extension SyncRound {
    /// Returns the next question about a row of a rebuilt table, which precedes the snapshot; nil if none is left.
    mutating func nextQuestion(_ file: DeviceFile, in db: Database) throws -> Step? {
        guard file.rebuilt != nil else { return nil }
        try EngineConnection.prepare(db, schema: file.schema)
        openQuestion = try ReplacedRows(db: db, schema: file.schema).question(zone: file.zone)
        return openQuestion.map { .askHistory($0) }
    }

    /// Applies a record's history, which tells edits of a rebuilt table from the values before them.
    package mutating func applyHistory(_ answer: [UInt8], to question: HistoryQuestion, in db: Database) throws
        -> [DeviceEvent]
    {
        openQuestion = nil
        try db.inTransaction(.immediate) {
            try ReplacedRows(db: db, schema: DeviceFile(db).schema).take(answer, to: question)
            return .commit
        }
        return try compareKept(db)
    }

    /// Notes that the server does not tell a record's history; nil if the error is about something else.
    mutating func giveUpHistory(after error: TidemarkError, during outgoing: DeviceCore.Outgoing?, in db: Database)
        throws -> [DeviceEvent]?
    {
        guard let question = openQuestion, outgoing == nil else { return nil }
        openQuestion = nil
        guard error.recovery == .permanent || error.code == .invalidResponse else { return nil }
        try db.inTransaction(.immediate) {
            let isUnknown = [.unknownPath, .unknownTable].contains(error.code)
            try ReplacedRows(db: db, schema: DeviceFile(db).schema).giveUp(question, all: isUnknown)
            return .commit
        }
        return try compareKept(db)
    }

    /// Compares with the kept rows, once the device is at their revision and has no question left.
    mutating func compareKept(_ db: Database) throws -> [DeviceEvent] {
        guard case .comparison = need, let rows = keptRows else { return [] }
        let file = try DeviceFile(db)
        guard file.rebuilt != nil, rows.revision == file.revision, rows.schema == file.tables.servedHash else {
            keptRows = nil
            return []
        }
        try EngineConnection.prepare(db, schema: file.schema)
        guard try ReplacedRows(db: db, schema: file.schema).question(zone: file.zone) == nil else { return [] }
        keptRows = nil
        need = .request
        return try CaptureRebuilt(db: db, boundaries: boundaries(), now: environment.now(), newID: environment.newID)
            .compareKept()
    }

    /// Returns how many revisions an answer may have, so that it does not pass those of the kept rows.
    mutating func revisionsMax(_ db: Database) throws -> Int64? {
        guard let rows = keptRows else { return nil }
        let revision = try DeviceFile(db).revision
        if revision < rows.revision { return rows.revision - revision }
        keptRows = nil
        return nil
    }
}
