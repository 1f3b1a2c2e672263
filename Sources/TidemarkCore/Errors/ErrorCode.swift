/// The stable name of an error, used on the wire and in scripts.
///
/// Any release may add codes. Switch over ``TidemarkError/recovery`` to choose a reaction, and over
/// codes only to explain more to people. `Docs/PROTOCOL.md` lists every code with cause and cure.
public struct ErrorCode: RawRepresentable, Hashable, Sendable {
    /// The code in camel case, for instance `unknownColumn`.
    public let rawValue: String

    /// Creates a code from its name on the wire.
    public init(rawValue: String) { self.rawValue = rawValue }
}

extension ErrorCode {
    /// The body is not JSON, or its envelope does not have the protocol's form.
    public static let malformedRequest = ErrorCode(rawValue: "malformedRequest")
    /// A name appears twice in one JSON object.
    public static let duplicateName = ErrorCode(rawValue: "duplicateName")
    /// The request names a table that the zone does not sync.
    public static let unknownTable = ErrorCode(rawValue: "unknownTable")
    /// The request names a column that its table does not have, or a generated column.
    public static let unknownColumn = ErrorCode(rawValue: "unknownColumn")
    /// The request has a value that no column can hold, for instance an integer beyond 64 bits.
    public static let invalidValue = ErrorCode(rawValue: "invalidValue")
    /// A record's key has the wrong form for its table.
    public static let invalidKey = ErrorCode(rawValue: "invalidKey")
    /// No creation by this device has introduced this temporary id.
    public static let unknownTemporaryId = ErrorCode(rawValue: "unknownTemporaryId")
    /// A foreign key refers to a record that never existed.
    public static let brokenReference = ErrorCode(rawValue: "brokenReference")
    /// A CHECK, NOT NULL or STRICT rule of the table rejects the record.
    public static let constraintViolated = ErrorCode(rawValue: "constraintViolated")
    /// The body is larger than the server accepts.
    public static let tooLarge = ErrorCode(rawValue: "tooLarge")
    /// The server does not have this path.
    public static let unknownPath = ErrorCode(rawValue: "unknownPath")
    /// The server has this path, but not for this method.
    public static let methodNotAllowed = ErrorCode(rawValue: "methodNotAllowed")
    /// The server cannot decode this `Content-Encoding`.
    public static let unsupportedEncoding = ErrorCode(rawValue: "unsupportedEncoding")
    /// The requested range begins after the end of the snapshot.
    public static let rangeNotSatisfiable = ErrorCode(rawValue: "rangeNotSatisfiable")

    /// A filter, an order, a selection or another parameter of a list is invalid.
    public static let invalidFilter = ErrorCode(rawValue: "invalidFilter")
    /// A cursor is damaged, or belongs to another query, another schema or another history.
    public static let invalidCursor = ErrorCode(rawValue: "invalidCursor")
    /// The table has no record of this key, or the client may not see it.
    public static let unknownRecord = ErrorCode(rawValue: "unknownRecord")
    /// The query would run for too long; its fix names the index that helps.
    public static let queryTooCostly = ErrorCode(rawValue: "queryTooCostly")
    /// A whole record lacks a column.
    public static let incompleteRecord = ErrorCode(rawValue: "incompleteRecord")
    /// A write does not say which state of the record its author has seen.
    public static let preconditionRequired = ErrorCode(rawValue: "preconditionRequired")
    /// The record is not in the state that the write's author has seen.
    public static let preconditionFailed = ErrorCode(rawValue: "preconditionFailed")
    /// The change set of a write was refused for another reason than its base.
    public static let conflict = ErrorCode(rawValue: "conflict")
    /// The server cannot answer in a format that the client accepts.
    public static let notAcceptable = ErrorCode(rawValue: "notAcceptable")
    /// The server cannot read a body of this media type.
    public static let unsupportedMediaType = ErrorCode(rawValue: "unsupportedMediaType")

    /// The server cannot answer this conditional GET; the device sends a full request.
    public static let fullRequestRequired = ErrorCode(rawValue: "fullRequestRequired")
    /// The device names a revision that the zone has not reached.
    public static let revisionAhead = ErrorCode(rawValue: "revisionAhead")
    /// The device's revision is before the compaction horizon, so it needs a snapshot.
    public static let snapshotRequired = ErrorCode(rawValue: "snapshotRequired")
    /// The zone's epoch is not the one that the device knows.
    public static let epochMismatch = ErrorCode(rawValue: "epochMismatch")
    /// The device's rows differ from the zone's rows at the device's revision.
    public static let fingerprintMismatch = ErrorCode(rawValue: "fingerprintMismatch")
    /// The answer would delete a large part of the device's records.
    public static let massDeletion = ErrorCode(rawValue: "massDeletion")
    /// A table or column of the device cannot be converted to the zone's, or back.
    public static let schemaMismatch = ErrorCode(rawValue: "schemaMismatch")
    /// The zone requires a newer version of the tables than the device has.
    public static let deviceBehind = ErrorCode(rawValue: "deviceBehind")
    /// The device's tables require a newer version of the zone.
    public static let serverBehind = ErrorCode(rawValue: "serverBehind")
    /// The server knows this change set id with other content.
    public static let changeSetIdReused = ErrorCode(rawValue: "changeSetIdReused")
    /// The server did not see this device's last request: one of the two files is an older copy.
    public static let identityInUse = ErrorCode(rawValue: "identityInUse")
    /// The change set arrived before the one that it depends on.
    public static let predecessorMissing = ErrorCode(rawValue: "predecessorMissing")
    /// The request comes from a web origin, or to a host name, that the server does not accept.
    public static let originRefused = ErrorCode(rawValue: "originRefused")
    /// The zone does not exist, or the client may not see it.
    public static let unknownZone = ErrorCode(rawValue: "unknownZone")
    /// The client was a member of the zone and no longer is.
    public static let accessRevoked = ErrorCode(rawValue: "accessRevoked")
    /// The device's id belongs to another user.
    public static let deviceTaken = ErrorCode(rawValue: "deviceTaken")
    /// The zone was deleted by one of its owners.
    public static let zoneGone = ErrorCode(rawValue: "zoneGone")
    /// The invitation is unknown, used up, expired or revoked.
    public static let invitationInvalid = ErrorCode(rawValue: "invitationInvalid")
    /// The zone would have no owner.
    public static let lastOwner = ErrorCode(rawValue: "lastOwner")

    /// Some tables cannot be synced as they are.
    public static let unsyncableSchema = ErrorCode(rawValue: "unsyncableSchema")
    /// The command cannot use this file.
    public static let unusableFile = ErrorCode(rawValue: "unusableFile")
    /// Another process is syncing this file.
    public static let syncInProgress = ErrorCode(rawValue: "syncInProgress")
    /// The disk is full, or cannot read or write a file.
    public static let storageFailed = ErrorCode(rawValue: "storageFailed")
    /// The file's content is damaged.
    public static let fileDamaged = ErrorCode(rawValue: "fileDamaged")
    /// The file, or the request, belongs to another user than the credentials.
    public static let accountMismatch = ErrorCode(rawValue: "accountMismatch")
    /// The user who signs in has a file already, beside one with changes that nobody owns yet.
    public static let accountHasFile = ErrorCode(rawValue: "accountHasFile")
    /// The file has changes that the server does not have yet.
    public static let changesWait = ErrorCode(rawValue: "changesWait")
    /// An argument is invalid.
    public static let invalidArgument = ErrorCode(rawValue: "invalidArgument")

    /// The device cannot reach the server, or the server did not answer in time.
    public static let unreachable = ErrorCode(rawValue: "unreachable")
    /// The server, or a proxy before it, requires a valid token.
    public static let signInNeeded = ErrorCode(rawValue: "signInNeeded")
    /// The server, or a proxy before it, recognises the client and denies access.
    public static let notAllowed = ErrorCode(rawValue: "notAllowed")
    /// The answer is not from a Tidemark server, for instance a captive portal's page.
    public static let invalidResponse = ErrorCode(rawValue: "invalidResponse")
    /// The client has sent more requests than the server's limits allow.
    public static let rateLimited = ErrorCode(rawValue: "rateLimited")
    /// The server cannot serve the request now.
    public static let unavailable = ErrorCode(rawValue: "unavailable")
    /// The server is still writing the snapshot that a new device starts from.
    public static let snapshotPending = ErrorCode(rawValue: "snapshotPending")
    /// The server has a defect; its log says more.
    public static let internalFailure = ErrorCode(rawValue: "internalFailure")
}
