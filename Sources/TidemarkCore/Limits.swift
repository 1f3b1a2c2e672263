/// All bounds of the protocol; names end with the unit and the qualifier.
public struct Limits: Hashable, Sendable {
    /// The largest request body after decompression, in bytes.
    public var requestBytesMax = 64 << 20
    /// The largest value that a device sends and a server accepts, in bytes; larger served ones reach every device.
    public var valueBytesMax = 8 << 20
    /// The memory of a server for bodies in flight, in bytes; a request counts twice, an answer with its unsent rest.
    public var inFlightBytesMax = 512 << 20
    /// The largest answer that a device accepts after decompression, in bytes.
    public var responseBytesMax = 256 << 20
    /// The most change sets in one request.
    public var changeSetsPerRequestMax = 10_000
    /// The most change sets that a device asks about at once before it takes a snapshot.
    public var recalledIDsMax = 10_000
    /// The most unanswered requests that one request names; a device has at most 16.
    public var openLapsMax = 1_000
    /// The most revisions in one answer if the request names no `limit`.
    public var revisionsPerAnswerMax = 1_000
    /// The catch-up after which an answer ends with `more`, in bytes.
    public var catchUpBytesMax = 8 << 20
    /// The catch-up from which a capable device gets a delta, in bytes; `tidemark bench threshold` measures it.
    public var deltaBytesMin = 1 << 19
    /// The change sets that a device puts into one request, in bytes; at least one change set.
    public var outgoingBytesTarget = 8 << 20
    /// The most requests that share one transaction of a server.
    public var groupRequestsMax = 64
    /// The size of requests, or answers, after which no other request joins a transaction, in bytes.
    public var groupBytesMax = 16 << 20
    /// The number of latest revisions that compaction keeps for devices that are behind; nil keeps all.
    public var revisionsKept: Int?
    /// The number of older revisions from which a step of compaction is worthwhile.
    public var compactionStepMin = 100
    /// The most revisions that one step of compaction removes.
    public var compactionStepMax = 1_000
    /// How many revisions behind the snapshot file for a joining device may be, while the server builds the next.
    public var snapshotRevisionsBehindMax: Int64 = 0
    /// The most acknowledged change sets that a device keeps, to send them again if the server loses them.
    public var keptChangeSetsMax = 1_000
    /// The most keys and values in those change sets, in bytes.
    public var keptBytesMax = 8 << 20
    /// The greatest nesting depth of a JSON body.
    public var jsonDepthMax = 64
    /// The most related records that the server sends with a conflict.
    public var relatedRecordsMax = 10_000
    /// Whether a device asks for ids ahead, and a server lends them.
    public var lendsIDs = true
    /// The most columns of a synced table (capture stores each twice; SQLite allows 2,000).
    public var columnsPerTableMax = 900
    /// How far a device's clock may be ahead before the server uses its own, in milliseconds.
    public var clockSkewMillisecondsMax: Int64 = 300_000
    /// The most change sets whose overruled values one answer reports to a device.
    public var overruledPerAnswerMax = 1_000
    /// How often the app's function merges a refused change before a person decides.
    public var mergesMax = 8
    /// The longest table or column name, in bytes.
    public var nameBytesMax = 128
    /// The most connections that listen at a time.
    public var listenersMax = 10_000
    /// The longest pause in a stream of events, in milliseconds; proxies close silent streams.
    public var heartbeatMilliseconds = 15_000
    /// The interval at which a server with listeners looks for other programs' writes, in milliseconds.
    public var listenerTickMilliseconds = 250
    /// The largest change that the server pushes to listeners, in bytes; of a larger one it pushes the revision only.
    public var changeEventBytesMax = 4 << 10
    /// The most rows from which a device computes its fingerprint at every sync.
    public var fingerprintRowsMax = 1_000
    /// The longest interval at which a device with more rows computes it, in seconds.
    public var fingerprintIntervalSeconds = 86_400
    /// The bytes of a larger file for each second of pause, so that files of all sizes take the same share of time.
    public var fingerprintBytesPerSecond = 20_000
    /// The most ranges that a server accepts in one comparison of rows.
    public var rangesPerRequestMax = 40_000
    /// The number of ranges into which a device divides a differing range.
    public var repairWays = 32
    /// The most differing ranges that a device divides at a time; with more it takes a snapshot.
    public var repairRangesMax = 1_000
    /// The most records that a server sends for one comparison; with more the device takes a snapshot.
    public var repairRecordsMax = 10_000
    /// The most deletions in an answer that a device always applies without consent.
    public var massDeletionRecordsMin = 50
    /// The largest part of a zone's records that an answer may delete without consent, in percent.
    public var massDeletionPercent = 20
    /// The default limits of servers and devices.
    public static let standard = Limits()
}
