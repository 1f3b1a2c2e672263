internal import Foundation
internal import NIOSSL
public import TidemarkCore

/// The certificate and the key by which a server encrypts its connections, TLS 1.2 or newer; it reads both once.
public struct ServerTLS: Sendable {
    /// Advice for the operator, such as a key file that everybody on the machine can read.
    public let warnings: [String]
    /// The moment until which the certificate is good, in milliseconds since 1970.
    public let expires: Int64
    let configuration: TLSConfiguration

    /// Reads PEM files: the certificate followed by those of its authorities, and its private key without a passphrase.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unusableFile`` if a file is missing or no PEM file, or if the key is
    ///   another's.
    public init(certificate: String, key: String) throws(TidemarkError) {
        let chain = try Self.chain(in: certificate)
        let privateKey = try Self.key(in: key)
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) }, privateKey: .privateKey(privateKey))
        configuration.minimumTLSVersion = .tlsv12
        configuration.cipherSuiteValues = Self.ciphers
        configuration.applicationProtocols = ["http/1.1"]
        do { _ = try NIOSSLContext(configuration: configuration) } catch NIOSSLError.failedToLoadPrivateKey {
            throw TidemarkError(
                .unusableFile, "The key in \(key) does not belong to the first certificate in \(certificate).",
                fix: "Give the key with which this certificate was made; the server's certificate comes first.")
        } catch {
            throw TidemarkError(
                .unusableFile, "TLS cannot use the certificate in \(certificate) and the key in \(key): \(error).",
                fix: "Make a new certificate and key, for instance an RSA key of 2,048 bits.")
        }
        self.configuration = configuration
        expires = Int64(chain[0].notValidAfter) * 1_000
        warnings = Self.isReadableByEverybody(key) ? [Self.warning(about: key)] : []
    }

    /// The suites of TLS 1.2 with forward secrecy and authenticated encryption; those of TLS 1.3 all have both.
    private static let ciphers: [NIOTLSCipher] = [
        .TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, .TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        .TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, .TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        .TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, .TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ]

    private static func chain(in path: String) throws(TidemarkError) -> [NIOSSLCertificate] {
        let bytes = try content(of: path, purpose: "certificate")
        do {
            let chain = try NIOSSLCertificate.fromPEMBytes(bytes)
            if !chain.isEmpty { return chain }
        } catch { throw noPEM(path, purpose: "certificate", block: "CERTIFICATE") }
        throw noPEM(path, purpose: "certificate", block: "CERTIFICATE")
    }

    private static func key(in path: String) throws(TidemarkError) -> NIOSSLPrivateKey {
        let bytes = try content(of: path, purpose: "key")
        // OpenSSL would ask for the passphrase on the terminal.
        guard !String(decoding: bytes, as: UTF8.self).contains("ENCRYPTED") else {
            throw TidemarkError(
                .unusableFile, "The key in \(path) has a passphrase.",
                fix:
                    "Write it without one, by `openssl pkey -in \(path) -out plain.pem`, and let only the server read it."
            )
        }
        do { return try NIOSSLPrivateKey(bytes: bytes, format: .pem) } catch {
            throw noPEM(path, purpose: "key", block: "PRIVATE KEY")
        }
    }

    private static func content(of path: String, purpose: String) throws(TidemarkError) -> [UInt8] {
        do { return Array(try Data(contentsOf: URL(filePath: path))) } catch {
            let isThere = FileManager.default.fileExists(atPath: path)
            throw TidemarkError(
                .unusableFile,
                isThere
                    ? "The \(purpose) \(path) cannot be read: \(error.localizedDescription)"
                    : "There is no file \(path) with the \(purpose).",
                fix: isThere
                    ? "Check the permissions of the file and of the folders above it."
                    : "Check the path; Docs/ACCESS.md says how to make a certificate and a key.")
        }
    }

    private static func noPEM(_ path: String, purpose: String, block: String) -> TidemarkError {
        TidemarkError(
            .unusableFile, "The file \(path) holds no \(purpose) in PEM form.",
            fix: "Give a file with a block -----BEGIN \(block)-----.")
    }

    private static func isReadableByEverybody(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IROTH != 0
    }

    private static func warning(about path: String) -> String {
        "everybody on this machine can read the key \(path); let only the server's account: chmod 600 \(path)"
    }
}
