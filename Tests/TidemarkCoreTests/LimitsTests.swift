import Testing
import TidemarkCore

/// Bounds that depend on one another: a value that fits one must not be refused by the next.
@Suite struct LimitsTests {
    private let limits = Limits.standard

    @Test func `what a device puts into one request is taken by the server`() {
        #expect(limits.outgoingBytesTarget <= limits.requestBytesMax)
    }

    @Test func `a value that a device sends fits into a request, in its longest form`() {
        // A control character takes six bytes of JSON.
        #expect(6 * limits.valueBytesMax < limits.requestBytesMax)
    }

    @Test func `the largest change set that a server takes comes back to every device`() {
        // The echo adds an envelope, revisions and old ids to each record, and at most doubles it.
        #expect(2 * limits.requestBytesMax + limits.catchUpBytesMax <= limits.responseBytesMax)
    }

    @Test func `a page of catch-up leaves room for one more change set`() {
        #expect(limits.catchUpBytesMax + limits.requestBytesMax <= limits.responseBytesMax)
    }

    @Test func `capture's two copies of every column fit SQLite's limit of columns`() {
        // A shadow table holds old and new, and two columns of its own; SQLite allows 2,000.
        #expect(2 * limits.columnsPerTableMax + 2 <= 2_000)
    }

    @Test func `the deepest request of the protocol is not too deep`() {
        // Request, change sets, change set, table, attributes, record, tagged value.
        #expect(limits.jsonDepthMax >= 7)
    }

    @Test func `every bound is positive`() {
        let bounds = [
            limits.requestBytesMax, limits.responseBytesMax, limits.changeSetsPerRequestMax,
            limits.revisionsPerAnswerMax, limits.catchUpBytesMax, limits.outgoingBytesTarget, limits.jsonDepthMax,
            limits.relatedRecordsMax, limits.columnsPerTableMax, limits.nameBytesMax,
            Int(limits.clockSkewMillisecondsMax), limits.overruledPerAnswerMax, limits.mergesMax,
            limits.compactionStepMin, limits.compactionStepMax, limits.keptChangeSetsMax, limits.keptBytesMax,
            limits.fingerprintRowsMax, limits.fingerprintIntervalSeconds, limits.rangesPerRequestMax, limits.repairWays,
            limits.repairRangesMax, limits.repairRecordsMax, limits.massDeletionRecordsMin, limits.massDeletionPercent,
            limits.listenersMax, limits.heartbeatMilliseconds, limits.listenerTickMilliseconds,
            limits.waitMillisecondsMax, limits.groupRequestsMax, limits.groupBytesMax, limits.inFlightBytesMax,
            limits.valueBytesMax, limits.deltaBytesMin, limits.changeEventBytesMax, limits.openLapsMax,
        ]
        #expect(bounds.allSatisfy { $0 > 0 })
        // All revisions are kept unless somebody says how many.
        #expect(limits.revisionsKept == nil)
        // A new device gets the newest snapshot unless somebody says how old it may be.
        #expect(limits.snapshotRevisionsBehindMax == 0)
        // A device has the related records of a refusal itself.
        #expect(limits.relatedRecordsWanted == 0)
        #expect(bounds.count + 3 == Mirror(reflecting: limits).children.count)
    }

    @Test func `a device hears a sign of life before it takes its connection for dead`() {
        // The device's client gives up after 60 s of silence, and so do most proxies.
        #expect(3 * limits.heartbeatMilliseconds < 60_000)
        #expect(limits.waitMillisecondsMax < 60_000)
        #expect(limits.listenerTickMilliseconds <= limits.heartbeatMilliseconds)
    }

    @Test func `names of the protocol do not double as names of a table's part`() {
        #expect(WireName.changeSetMembers.isDisjoint(with: WireName.tableMembers))
        #expect(WireName.recordMembers.isSubset(of: ["revision", "__oldId__"]))
    }
}
