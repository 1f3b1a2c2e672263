import Testing
import TidemarkCore

@testable import Tidemark

/// What a sync tries again, and when it ends instead, whatever the server answers.
@Suite struct SyncBoundTests {
    private typealias Tests = SyncMachineTests

    private static func machine(_ purpose: SyncPurpose = .sync(acceptingMassDeletion: false)) -> SyncMachine {
        SyncMachine(for: purpose, sendsConditionalGet: true, limits: .standard)
    }

    /// The actions on some events, received in turn so many times.
    private static func actions(_ events: [SyncMachine.Event], times: Int) -> [SyncMachine.Action] {
        var machine = machine()
        return (0..<times).flatMap { _ in events.map { machine.received($0) } }
    }

    /// The code of the error with which the events end the sync, and how often they did not before.
    private static func end(of events: [SyncMachine.Event]) -> String {
        let actions = actions(events, times: 40)
        for (number, action) in actions.enumerated() {
            if case .fail(let error) = action { return "\(error.code.rawValue) after \(number / events.count)" }
        }
        return "none"
    }

    @Test func `each kind of attempt begins as often as it may`() {
        for kind in Attempts.Kind.allCases {
            var attempts = Attempts()
            let begun = (0..<kind.max + 2).map { _ in attempts.begin(kind) }
            #expect(begun == Array(repeating: true, count: kind.max) + [false, false])
            #expect(attempts.count(kind) == kind.max)
        }
    }

    @Test func `a server that asks for the same thing again and again ends the sync`() throws {
        let deletion = try #require(Tests.deletion)
        let schema: [SyncMachine.Event] = [Tests.answer(.needsSchema), .tookSchema]
        #expect(Self.end(of: schema) == "unavailable after 4")
        #expect(Self.end(of: [.suspected(deletion), .confirmed(revision: 7, .none)]) == "massDeletion after 5")
        #expect(Self.end(of: [Tests.failed(.revisionAhead)]) == "revisionAhead after 4")
        #expect(Self.end(of: [Tests.failed(.deviceTaken)]) == "deviceTaken after 4")
        #expect(Self.end(of: [Tests.failed(.fingerprintMismatch)]) == "fingerprintMismatch after 2")
        let inapplicable = SyncMachine.Event.failed(
            Answer.inapplicable("x"), .request(Tests.request(), isOpen: true), at: 7)
        #expect(Self.end(of: [inapplicable]) == "invalidResponse after 2")
    }

    @Test func `a snapshot that goes on being outdated counts only while the zone does not change`() {
        let required = { (revision: Int64) in
            SyncMachine.Event.failed(
                Tests.error(.snapshotRequired), .request(Tests.request(), isOpen: true), at: revision)
        }
        #expect(Self.end(of: [required(7)]) == "snapshotRequired after 4")
        var machine = Self.machine()
        for revision in 1...40 {
            guard case .proceed = machine.received(required(Int64(revision))) else {
                Issue.record("The sync ended at revision \(revision).")
                return
            }
        }
    }

    @Test func `the second answer that cannot be applied brings a snapshot, and no short request any more`() {
        var machine = Self.machine()
        let event = SyncMachine.Event.failed(
            Answer.inapplicable("x"), .request(Tests.request(), isOpen: true), at: 7)
        _ = machine.received(event)
        #expect(machine.state == .exchanging(.sending))
        _ = machine.received(event)
        #expect(machine.state == .fetchingSnapshot(nil, of: nil))
    }

    @Test func `rows with a key that are outdated twice are replaced at the third time`() {
        let facts = Tests.facts(rebuilt: .unkeyed)
        let names = Self.actions([.file(facts), .outdatedRows(.keyed)], times: 3).map { action in
            if case .replaceRows = action { "replaced" } else { "" }
        }
        #expect(names == ["", "", "", "", "", "replaced"])
    }

    @Test func `requests that change nothing end the sync as those of a damaged file`() throws {
        var machine = Self.machine()
        for _ in 0..<Attempts.repeatsMax { try machine.begin(at: .revision(7)) }
        #expect { try machine.begin(at: .revision(7)) } throws: { ($0 as? TidemarkError)?.code == .fileDamaged }
        var other = Self.machine()
        for revision in 1...40 { try other.begin(at: .revision(Int64(revision))) }
    }

    @Test func `a verification ends with its comparison, and with the first error that a sync would mend`() {
        var machine = Self.machine(.verify(repairing: false))
        _ = machine.received(Tests.answer())
        guard case .compare = machine.received(.file(Tests.facts())) else {
            Issue.record("The verification does not compare.")
            return
        }
        _ = machine.received(.compared(Tests.doneComparison, .level))
        #expect(machine.state == .even)
        #expect(machine.verification != nil)

        var other = Self.machine(.verify(repairing: false))
        guard case .fail(let error) = other.received(Tests.failed(.snapshotRequired)) else {
            Issue.record("The verification goes on.")
            return
        }
        #expect(error.code == .snapshotRequired)
        var altered = Self.machine(.verify(repairing: false))
        guard case .fail(let mismatch) = altered.received(.file(Tests.facts(tables: .others))) else {
            Issue.record("The verification compares other tables.")
            return
        }
        #expect(mismatch.code == .schemaMismatch)
    }
}
