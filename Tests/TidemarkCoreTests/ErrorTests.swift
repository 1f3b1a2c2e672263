import Foundation
import Testing
import TidemarkCore

@Suite struct ErrorTests {
    @Test func `an error's text has the problem, the place, the cure and the code`() {
        let error = TidemarkError(
            .unknownColumn, "The table has no such column.", fix: "Use a name of the table.",
            place: .init(changeSet: 0, id: "f0", table: "cities", key: "12", column: "nmae"))
        #expect(
            error.description == "The table has no such column. [change set 0, id f0, table cities, key 12, "
                + "column nmae] Use a name of the table. (unknownColumn)")
    }

    @Test func `an unknown place leaves no empty brackets`() {
        let error = TidemarkError(.unreachable, "No answer.", fix: "Try later.")
        #expect(error.description == "No answer. Try later. (unreachable)")
    }

    @Test func `no part of an error can hold a row's value`() {
        // A new part of an error needs a decision here whether it can be logged and shown.
        let error = TidemarkError(.invalidValue, "m", fix: "f")
        #expect(
            Mirror(reflecting: error).children.compactMap(\.label) == [
                "code", "message", "fix", "place", "senderRecovery", "retryAfterSeconds",
            ]
        )
        #expect(
            Mirror(reflecting: error.place).children.compactMap(\.label) == [
                "changeSet", "id", "table", "key", "column",
            ]
        )
    }

    private static let retried: [ErrorCode] = [
        .unreachable, .invalidResponse, .unavailable, .internalFailure, .predecessorMissing, .syncInProgress,
        .storageFailed, .rangeNotSatisfiable, .rateLimited, .snapshotPending,
    ]
    private static let resynced: [ErrorCode] = [.snapshotRequired, .epochMismatch, .revisionAhead]
    private static let permanent: [ErrorCode] = [
        .malformedRequest, .duplicateName, .unknownTable, .unknownColumn, .invalidValue, .invalidKey,
        .unknownTemporaryId, .brokenReference, .constraintViolated, .tooLarge, .schemaMismatch, .changeSetIdReused,
        .unknownZone, .unsyncableSchema, .unusableFile, .invalidArgument, .fileDamaged, .massDeletion,
        .fullRequestRequired, .changesWait, .lastOwner,
    ]

    @Test func `the recovery follows from the code alone`() {
        let recovery = { (code: ErrorCode) in TidemarkError(code, "", fix: "").recovery }
        #expect(Self.retried.allSatisfy { recovery($0) == .retry })
        #expect(Self.resynced.allSatisfy { recovery($0) == .resync })
        #expect(recovery(.identityInUse) == .renew)
        #expect(recovery(.deviceTaken) == .renew)
        #expect(recovery(.signInNeeded) == .signIn)
        #expect(recovery(.notAllowed) == .signIn)
        #expect(recovery(.accessRevoked) == .leave)
        #expect(recovery(.fingerprintMismatch) == .repair)
        #expect(Self.permanent.allSatisfy { recovery($0) == .permanent })
    }

    @Test(arguments: retried + resynced + permanent + [.identityInUse, .signInNeeded, .fingerprintMismatch, .zoneGone])
    func `an alert of an app shows what happened and what to do, whatever the error`(code: ErrorCode) {
        let plain: any Error = TidemarkError(code, "The disk is full.", fix: "Make room.")
        #expect(plain.localizedDescription == "The disk is full.")
        #expect((plain as NSError).localizedRecoverySuggestion == "Make room.")
        let placed: any Error = TidemarkError(code, "No.", fix: "Yes.", place: .init(table: "note", key: "7"))
        #expect(placed.localizedDescription == "No. [table note, key 7]")
    }

    @Test func `an unknown code of a newer server is permanent and keeps its name`() {
        let error = TidemarkError(ErrorCode(rawValue: "quotaExceeded"), "Full.", fix: "Pay.")
        #expect(error.recovery == .permanent)
        #expect(WireError(error).tidemarkError == error)
    }

    @Test(arguments: [
        ("retry", TidemarkError.Recovery.retry), ("resync", .resync), ("leave", .leave), ("later", .retry),
    ])
    func `rule 20: an unknown code of a newer server has the recovery that the server sent`(
        sent: String, recovery: TidemarkError.Recovery
    ) throws {
        let json = """
            {"error":{"code":"coffeeBreak","message":"m","fix":"f","recovery":"\(sent)"}}
            """
        let decoded = try JSONDecoder().decode(WireError.self, from: Data(json.utf8)).tidemarkError
        #expect(decoded.recovery == recovery)
        #expect(decoded.code.rawValue == "coffeeBreak")
    }

    @Test func `an error survives the wire with its place and its recovery`() throws {
        let error = TidemarkError(
            .revisionAhead, "Revision 9 is not reached.", fix: "Take a snapshot.",
            place: .init(changeSet: 3, table: "cities", key: #""a\"b""#))
        let data = try JSONEncoder().encode(WireError(error))
        let decoded = try JSONDecoder().decode(WireError.self, from: data)
        #expect(decoded.tidemarkError == error)
        #expect(decoded.error.recovery == "resync")
    }

    @Test func `an error without a place encodes no place`() throws {
        let data = try JSONEncoder().encode(WireError(TidemarkError(.unavailable, "m", fix: "f")))
        #expect(!String(decoding: data, as: UTF8.self).contains("place"))
    }
}
