/// Every bound of the protocol in one place; units and qualifiers stand last in the names.
public struct Limits: Hashable, Sendable {
    /// The largest request body after decompression, in bytes.
    public var requestBytesMax = 64 << 20
    /// The largest value of a column that a device sends and a server takes, in bytes.
    ///
    /// A larger one that is in the served rows already reaches every device all the same.
    public var valueBytesMax = 8 << 20
    /// The memory that requests and answers in flight may take at a server, in bytes: a body
    /// counts twice, an answer as what is left of it to send.
    public var inFlightBytesMax = 512 << 20
    /// The largest answer that a device takes after decompression, in bytes.
    public var responseBytesMax = 256 << 20
    /// The change sets of one request.
    public var changeSetsPerRequestMax = 10_000
    /// The unanswered requests that one request names; the device has at most 16.
    public var openLapsMax = 1_000
    /// The revisions of one answer, when the request names no `limit`.
    public var revisionsPerAnswerMax = 1_000
    /// The bytes of catch-up after which an answer ends with `more`.
    public var catchUpBytesMax = 8 << 20
    /// The bytes of catch-up beyond which a device that can take a delta is told to; as
    /// `tidemark bench threshold` measures where a delta is quicker.
    public var deltaBytesMin = 1 << 19
    /// The bytes of change sets that a device puts into one request, at least one change set.
    public var outgoingBytesTarget = 8 << 20
    /// The requests that share one transaction of a server.
    public var groupRequestsMax = 64
    /// The bytes of requests, and of answers, after which no other request joins a transaction.
    public var groupBytesMax = 16 << 20
    /// The latest revisions that a server keeps for devices that are behind; nil: all.
    public var revisionsKept: Int?
    /// The revisions beyond that which are worth a step of compaction.
    public var compactionStepMin = 100
    /// The revisions that one step of compaction takes away.
    public var compactionStepMax = 1_000
    /// How many revisions the snapshot file may be behind that a device gets which begins; the next
    /// file is built meanwhile.
    public var snapshotRevisionsBehindMax: Int64 = 0
    /// The acknowledged change sets that a device keeps, to offer them again should the server
    /// forget them.
    public var keptChangeSetsMax = 1_000
    /// The bytes of keys and values in them.
    public var keptBytesMax = 8 << 20
    /// The nesting depth of a JSON body.
    public var jsonDepthMax = 64
    /// The related records that a conflict brings along.
    public var relatedRecordsMax = 10_000
    /// The related records that a device asks for with a refusal: none, for it keeps the confirmed
    /// rows itself.
    public var relatedRecordsWanted = 0
    /// The columns of a synced table (capture keeps two copies of each; SQLite allows 2,000).
    public var columnsPerTableMax = 900
    /// How far a device's clock may be ahead of the server's before the server's counts instead, in
    /// milliseconds.
    public var clockSkewMillisecondsMax: Int64 = 300_000
    /// The overruled values of one device that an answer brings, in change sets that overruled.
    public var overruledPerAnswerMax = 1_000
    /// The times that a refused change is merged by the app's function before a person is asked.
    public var mergesMax = 8
    /// The bytes of a table or column name.
    public var nameBytesMax = 128

    /// The connections that listen, or wait for an answer, at a time.
    public var listenersMax = 10_000
    /// The longest pause in a stream of events, in milliseconds; proxies cut silent ones.
    public var heartbeatMilliseconds = 15_000
    /// How often a server with listeners looks for writes of other programs, in milliseconds.
    public var listenerTickMilliseconds = 250
    /// The largest change that listeners are told itself, as the bytes of its answer; of a larger
    /// one they are told that it is there.
    public var changeEventBytesMax = 4 << 10
    /// The longest that a request is held for news, in milliseconds: less than the time after which
    /// clients and proxies give up.
    public var waitMillisecondsMax = 50_000

    /// The rows up to which a device computes its fingerprint from them at every sync.
    public var fingerprintRowsMax = 1_000
    /// The time after which a device with more rows does so again, in seconds.
    public var fingerprintIntervalSeconds = 86_400
    /// The ranges of one comparison of rows that a server looks at.
    public var rangesPerRequestMax = 40_000
    /// The ranges into which a device divides one that differs.
    public var repairWays = 32
    /// The differing ranges that a device divides at a time; with more it takes a snapshot.
    public var repairRangesMax = 1_000
    /// The records that a server sends for one comparison; with more a snapshot is due.
    public var repairRecordsMax = 10_000
    /// The deletions up to which an answer is applied unasked, whatever part of the zone they are.
    public var massDeletionRecordsMin = 50
    /// The part of a zone's records up to which an answer may delete unasked, in percent.
    public var massDeletionPercent = 20

    /// The limits that a server and a device have when nobody says otherwise.
    public static let standard = Limits()
}
