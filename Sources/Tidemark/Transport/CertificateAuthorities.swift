internal import NIOSSL
internal import TidemarkCore

/// The certificate authorities that a device trusts in place of the system's.
enum CertificateAuthorities {
    static func configuration(trusting path: String) throws(TidemarkError) -> TLSConfiguration {
        let certificates: [NIOSSLCertificate]
        do { certificates = try NIOSSLCertificate.fromPEMFile(path) } catch {
            // The error contains no details; the check below reports it.
            certificates = []
        }
        guard !certificates.isEmpty else {
            throw TidemarkError(
                .unusableFile, "No certificate can be read from \(path).",
                fix: "Give a file of certificates in PEM: -----BEGIN CERTIFICATE-----.")
        }
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.trustRoots = .certificates(certificates)
        return configuration
    }
}
