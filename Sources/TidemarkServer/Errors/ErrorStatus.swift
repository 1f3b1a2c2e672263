internal import HTTPTypes
internal import TidemarkCore

extension ErrorCode {
    /// The HTTP status of an answer with this error.
    var status: HTTPResponse.Status {
        switch self {
        case .malformedRequest, .duplicateName, .unknownTable, .unknownColumn, .invalidValue, .invalidKey,
            .unknownTemporaryId, .invalidArgument:
            .badRequest
        case .signInNeeded: .unauthorized
        case .originRefused, .notAllowed, .accessRevoked, .deviceTaken, .accountMismatch: .forbidden
        case .unknownZone, .unknownPath, .invitationInvalid: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .revisionAhead, .epochMismatch, .schemaMismatch, .serverBehind, .changeSetIdReused, .predecessorMissing,
            .identityInUse, .fingerprintMismatch, .lastOwner:
            .conflict
        case .snapshotRequired, .zoneGone: .gone
        case .fullRequestRequired: .preconditionFailed
        case .tooLarge: .contentTooLarge
        case .unsupportedEncoding: .unsupportedMediaType
        case .rangeNotSatisfiable: .rangeNotSatisfiable
        case .brokenReference, .constraintViolated, .deviceBehind: .unprocessableContent
        case .rateLimited: .tooManyRequests
        case .unavailable, .storageFailed: .serviceUnavailable
        default: .internalServerError
        }
    }
}
