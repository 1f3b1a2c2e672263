/// The stable name of what went wrong, as it travels on the wire and stands in scripts.
///
/// New codes may appear in any release: switch over ``TidemarkError/recovery`` to decide what to
/// do, and over codes only to tell people more. `Docs/PROTOCOL.md` lists every code with cause and
/// cure.
public struct ErrorCode: RawRepresentable, Hashable, Sendable {
    /// The code in camel case, for instance `unknownColumn`.
    public let rawValue: String

    /// Makes a code from its name on the wire.
    public init(rawValue: String) { self.rawValue = rawValue }
}

extension ErrorCode {
    // MARK: A request that cannot be understood

    /// The body is not JSON, or its envelope has another form than the protocol's.
    public static let malformedRequest = ErrorCode(rawValue: "malformedRequest")
    /// A name appears twice in one JSON object.
    public static let duplicateName = ErrorCode(rawValue: "duplicateName")
    /// A table that this zone does not sync.
    public static let unknownTable = ErrorCode(rawValue: "unknownTable")
    /// A column that its table does not have, or that only the database computes.
    public static let unknownColumn = ErrorCode(rawValue: "unknownColumn")
    /// A value that no column can hold, for instance an integer beyond 64 bits.
    public static let invalidValue = ErrorCode(rawValue: "invalidValue")
    /// A record key of the wrong form for its table.
    public static let invalidKey = ErrorCode(rawValue: "invalidKey")
    /// A temporary id that no create of this device stands for.
    public static let unknownTemporaryId = ErrorCode(rawValue: "unknownTemporaryId")
    /// A foreign key that points at a record which never existed.
    public static let brokenReference = ErrorCode(rawValue: "brokenReference")
    /// A CHECK, NOT NULL or STRICT rule of the table refuses the record.
    public static let constraintViolated = ErrorCode(rawValue: "constraintViolated")
    /// The body is larger than the server takes.
    public static let tooLarge = ErrorCode(rawValue: "tooLarge")
    /// A path that the server does not have.
    public static let unknownPath = ErrorCode(rawValue: "unknownPath")
    /// A path that the server has, under another method.
    public static let methodNotAllowed = ErrorCode(rawValue: "methodNotAllowed")
    /// A `Content-Encoding` that the server cannot decode.
    public static let unsupportedEncoding = ErrorCode(rawValue: "unsupportedEncoding")
    /// A part of a snapshot that begins behind its end.
    public static let rangeNotSatisfiable = ErrorCode(rawValue: "rangeNotSatisfiable")

    // MARK: A request that does not fit this history

    /// A question in few bytes that has no answer as short: ask in full.
    public static let fullRequestRequired = ErrorCode(rawValue: "fullRequestRequired")
    /// A revision that this zone has not reached.
    public static let revisionAhead = ErrorCode(rawValue: "revisionAhead")
    /// A revision older than the log reaches: a snapshot is needed.
    public static let snapshotRequired = ErrorCode(rawValue: "snapshotRequired")
    /// The zone's history is another than the one the device knows.
    public static let epochMismatch = ErrorCode(rawValue: "epochMismatch")
    /// The device's rows are not those that the zone had at the device's revision.
    public static let fingerprintMismatch = ErrorCode(rawValue: "fingerprintMismatch")
    /// An answer that would delete a large part of the device's records.
    public static let massDeletion = ErrorCode(rawValue: "massDeletion")
    /// A table or column of the device and of the zone that cannot be converted into each other.
    public static let schemaMismatch = ErrorCode(rawValue: "schemaMismatch")
    /// The zone needs something that the device's version of the tables does not have yet.
    public static let deviceBehind = ErrorCode(rawValue: "deviceBehind")
    /// The device's tables need something that the zone does not have yet.
    public static let serverBehind = ErrorCode(rawValue: "serverBehind")
    /// One change set id with two contents.
    public static let changeSetIdReused = ErrorCode(rawValue: "changeSetIdReused")
    /// A device whose last request the server did not see: its file, or the server's, is an older
    /// copy.
    public static let identityInUse = ErrorCode(rawValue: "identityInUse")
    /// A change set that arrives before the one it depends on.
    public static let predecessorMissing = ErrorCode(rawValue: "predecessorMissing")
    /// A web page that this server does not answer, or a name that it does not answer to.
    public static let originRefused = ErrorCode(rawValue: "originRefused")
    /// A zone that does not exist, or that the reader may not see.
    public static let unknownZone = ErrorCode(rawValue: "unknownZone")

    // MARK: A file or a schema that cannot be used

    /// Tables that cannot be synced as they are.
    public static let unsyncableSchema = ErrorCode(rawValue: "unsyncableSchema")
    /// A file that is not what the command expects.
    public static let unusableFile = ErrorCode(rawValue: "unusableFile")
    /// Another process syncs this file just now.
    public static let syncInProgress = ErrorCode(rawValue: "syncInProgress")
    /// A disk that is full, or that does not read or write a file.
    public static let storageFailed = ErrorCode(rawValue: "storageFailed")
    /// A file whose content is damaged.
    public static let fileDamaged = ErrorCode(rawValue: "fileDamaged")
    /// An argument that makes no sense.
    public static let invalidArgument = ErrorCode(rawValue: "invalidArgument")

    // MARK: The way there

    /// The server cannot be reached, or did not answer in time.
    public static let unreachable = ErrorCode(rawValue: "unreachable")
    /// The server, or a proxy before it, accepts nobody without a valid token.
    public static let signInNeeded = ErrorCode(rawValue: "signInNeeded")
    /// The server, or a proxy before it, knows who asks and does not let them.
    public static let notAllowed = ErrorCode(rawValue: "notAllowed")
    /// An answer that is not Tidemark's, for instance a captive portal's page.
    public static let invalidResponse = ErrorCode(rawValue: "invalidResponse")
    /// The server cannot serve now.
    public static let unavailable = ErrorCode(rawValue: "unavailable")
    /// A defect of the server; its log says more.
    public static let internalFailure = ErrorCode(rawValue: "internalFailure")
}
