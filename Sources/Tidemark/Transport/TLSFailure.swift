internal import AsyncHTTPClient
internal import NIOSSL
internal import TidemarkCore

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
