internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import TidemarkCore
internal import TidemarkGzip

extension HTTPExchange {
    func failure(_ error: any Error) -> TidemarkError {
        if let failure = tlsFailure(error) { return failure }
        return switch error {
        case GzipError.truncated: address.unreachable("the answer ended too early")
        case GzipError.tooLarge(let bytesMax):
            // Not `tooLarge`: that code is about the request, but this answer is too large.
            TidemarkError(
                .invalidResponse, "The answer of \(address.hostAndPort) holds more than \(bytesMax) bytes.",
                fix: "Have the server send less at a time, or raise this device's limit.")
        case is GzipError: address.foreign("damaged gzip")
        case let error as HTTPParserError where error != .invalidEOFState:
            address.foreign(
                "something else than HTTP",
                fix: address.isPlain
                    ? "Check the address; if the server speaks TLS, begin it with https://." : "Check the address.")
        default: address.unreachable(cause(error))
        }
    }

    private func cause(_ error: any Error) -> String {
        switch error {
        case let error as HTTPClientError: cause(error)
        case let error as NIOConnectionError: cause(error)
        case let error as IOError: String(cString: strerror(error.errnoCode))
        case is ChannelError, is HTTPParserError: "the connection was cut"
        default: "\(error)"
        }
    }

    private func cause(_ error: HTTPClientError) -> String {
        switch error {
        case .connectTimeout, .getConnectionFromPoolTimeout: "no connection in time"
        case .readTimeout: "no answer in time"
        case .writeTimeout: "the upload does not move"
        case .remoteConnectionClosed, .uncleanShutdown: "the connection was cut"
        default: error.shortDescription.lowercased()
        }
    }

    private func cause(_ error: NIOConnectionError) -> String {
        guard let first = error.connectionErrors.first else { return "its name cannot be looked up" }
        return cause(first.error)
    }
}
