internal import AsyncHTTPClient
internal import Foundation
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import NIOSSL
internal import TidemarkCore
internal import TidemarkGzip

extension HTTPExchange {
    func connectionError(_ error: any Error) -> TidemarkError {
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
        // An early answer stops the upload.
        case .remoteConnectionClosed, .uncleanShutdown, .bodyLengthMismatch: "the connection was cut"
        default: error.shortDescription.lowercased()
        }
    }

    private func cause(_ error: NIOConnectionError) -> String {
        guard let first = error.connectionErrors.first else { return "its name cannot be looked up" }
        return cause(first.error)
    }
}

/// Messages for TLS failures; BoringSSL's own messages contain file names of its build machine.
extension HTTPExchange {
    func tlsFailure(_ error: any Error) -> TidemarkError? {
        switch error {
        case NIOSSLError.handshakeFailed(.sslError(let stack)): handshakeFailure(stack)
        case NIOSSLError.uncleanShutdown: address.unreachable("the connection was cut")
        case let error as NIOSSLExtraError where error == .failedToValidateHostname:
            address.unreachable("its certificate is another server's", fix: "Use the name that the certificate is for.")
        case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError: address.unreachable("TLS failed")
        default: nil
        }
    }

    /// BoringSSL's reasons for an answer that is not TLS.
    private static let plainAnswers = ["WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"]

    private func handshakeFailure(_ stack: NIOBoringSSLErrorStack) -> TidemarkError {
        let reasons = stack.compactMap { reason($0) }
        if reasons.contains(where: Self.plainAnswers.contains) {
            return address.unreachable("it speaks no TLS there", fix: "Did you mean http://\(address.hostAndPort)?")
        }
        if reasons.contains("CERTIFICATE_VERIFY_FAILED") {
            return address.unreachable(
                "its certificate is not trusted here, or not valid today",
                fix: "Check the certificate and this machine's clock. Name a certificate authority of your own "
                    + "with --ca-file or TIDEMARK_CA_FILE, in Swift with HTTPTransport(certificateAuthorities:).")
        }
        if stack.contains(.eofDuringHandshake) {
            return address.unreachable("the connection was cut before TLS was agreed on")
        }
        let words = reasons.map { $0.lowercased().replacing("_", with: " ") }
        return address.unreachable((["TLS failed"] + words).joined(separator: ": "))
    }

    /// Returns the name of an error, such as `WRONG_VERSION_NUMBER` in
    /// `Error: 268435703 error:100000f7:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER at ...`.
    private func reason(_ error: BoringSSLInternalError) -> String? {
        error.description.firstMatch(of: #/:([A-Z0-9_]+) at /#).map { String($0.output.1) }
    }
}
