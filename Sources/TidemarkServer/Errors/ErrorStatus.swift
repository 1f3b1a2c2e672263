internal import HTTPTypes
internal import TidemarkCore

extension ErrorCode {
    /// The HTTP status for a client without rows, which names tables in paths and lists them after a new history.
    var recordStatus: HTTPResponse.Status {
        switch self {
        case .unknownTable: .notFound
        case .epochMismatch: .gone
        default: status
        }
    }

    var status: HTTPResponse.Status {
        switch self {
        case .malformedRequest, .duplicateName, .unknownTable, .unknownColumn, .invalidValue, .invalidKey,
            .unknownTemporaryId, .invalidArgument, .invalidFilter, .invalidCursor:
            .badRequest
        case .signInNeeded: .unauthorized
        case .originRefused, .notAllowed, .accessRevoked, .deviceTaken, .accountMismatch: .forbidden
        case .unknownZone, .unknownPath, .invitationInvalid, .unknownRecord: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .revisionAhead, .epochMismatch, .schemaMismatch, .serverBehind, .changeSetIdReused, .predecessorMissing,
            .identityInUse, .fingerprintMismatch, .lastOwner, .conflict:
            .conflict
        case .snapshotRequired, .zoneGone: .gone
        case .fullRequestRequired, .preconditionFailed: .preconditionFailed
        case .preconditionRequired: .preconditionRequired
        case .notAcceptable: .notAcceptable
        case .tooLarge: .contentTooLarge
        case .unsupportedEncoding, .unsupportedMediaType: .unsupportedMediaType
        case .rangeNotSatisfiable: .rangeNotSatisfiable
        case .brokenReference, .constraintViolated, .deviceBehind, .incompleteRecord, .queryTooCostly:
            .unprocessableContent
        case .rateLimited: .tooManyRequests
        case .unavailable, .storageFailed, .snapshotPending: .serviceUnavailable
        default: .internalServerError
        }
    }
}
