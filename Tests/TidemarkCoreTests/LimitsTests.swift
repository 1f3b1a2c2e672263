import Testing
import TidemarkCore

/// Limits that depend on each other: a value within one must be within the next.
@Suite struct LimitsTests {
    private let limits = Limits.standard

    @Test func `the largest request that a device sends is accepted by the server`() {
        #expect(limits.outgoingBytesTarget <= limits.requestBytesMax)
    }

    @Test func `the largest value that a device sends fits a request, in its longest notation`() {
        // A control character takes six bytes of JSON.
        #expect(6 * limits.valueBytesMax < limits.requestBytesMax)
    }

    @Test func `the largest change set that a server accepts fits an answer`() {
        // The echo adds an envelope, revisions and old ids to each record, and at most doubles it.
        #expect(2 * limits.requestBytesMax + limits.catchUpBytesMax <= limits.responseBytesMax)
    }

    @Test func `a page of catch-up has room for one more change set`() {
        #expect(limits.catchUpBytesMax + limits.requestBytesMax <= limits.responseBytesMax)
    }

    @Test func `capture's two copies of each column fit SQLite's column limit`() {
        // A shadow table holds the old and the new row, and two columns of its own; SQLite allows
        // 2,000.
        #expect(2 * limits.columnsPerTableMax + 2 <= 2_000)
    }

    @Test func `the deepest request of the protocol is within the depth limit`() {
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
            limits.fingerprintRowsMax, limits.fingerprintIntervalSeconds, limits.fingerprintBytesPerSecond,
            limits.rangesPerRequestMax, limits.repairWays,
            limits.repairRangesMax, limits.repairRecordsMax, limits.massDeletionRecordsMin, limits.massDeletionPercent,
            limits.listenersMax, limits.heartbeatMilliseconds, limits.listenerTickMilliseconds,
            limits.groupRequestsMax, limits.groupBytesMax, limits.inFlightBytesMax,
            limits.valueBytesMax, limits.deltaBytesMin, limits.changeEventBytesMax, limits.openLapsMax,
            limits.recalledIDsMax,
        ]
        #expect(bounds.allSatisfy { $0 > 0 })
        // All revisions are kept unless the operator sets a number.
        #expect(limits.revisionsKept == nil)
        // A new device gets the newest snapshot unless the operator allows an older one.
        #expect(limits.snapshotRevisionsBehindMax == 0)
        // A device asks for ids ahead.
        #expect(limits.lendsIDs)
        #expect(bounds.count + 3 == Mirror(reflecting: limits).children.count)
    }

    @Test func `heartbeats come before a device considers its connection dead`() {
        // The device's client gives up after 60 s of silence, and so do most proxies.
        #expect(3 * limits.heartbeatMilliseconds < 60_000)
        #expect(limits.listenerTickMilliseconds <= limits.heartbeatMilliseconds)
    }

    @Test func `no member name of the protocol is a member name of a table's part`() {
        #expect(WireName.changeSetMembers.isDisjoint(with: WireName.tableMembers))
        #expect(WireName.recordMembers.isSubset(of: ["revision", "__oldId__"]))
    }
}
