package import TidemarkCore

/// Decides whether a server may listen: beyond loopback it must know senders, and nobody may read tokens on the way.
package struct ListenSafety: Hashable, Sendable {
    /// The way in which the server learns who sends a request.
    package enum Identity: CaseIterable, Sendable {
        /// Nobody has chosen one.
        case none
        /// Tokens name users.
        case users
        /// The operator wants everybody to act as the owner.
        case renounced
    }

    /// The way in which requests are encrypted.
    package enum Encryption: CaseIterable, Sendable {
        /// They are not.
        case none
        case tls
        /// A proxy in front of the server has one, and no other machine may connect.
        case proxy
    }

    package enum Gap: CaseIterable, Sendable {
        /// The server would not know who sends a request.
        case identity
        /// Others could read tokens and rows on their way.
        case encryption
    }

    private let host: String
    private let identity: Identity
    private let encryption: Encryption

    package init(host: String, identity: Identity, encryption: Encryption) {
        self.host = host
        self.identity = identity
        self.encryption = encryption
    }

    /// The missing conditions; empty if the server may listen.
    package var gaps: [Gap] {
        guard !Loopback.contains(host) else { return [] }
        return (identity == .none ? [.identity] : []) + (encryption == .none ? [.encryption] : [])
    }

    /// Refuses an unsafe combination; `place` is the arguments for finding users in commands that fill the gaps.
    package func require(place: String) throws(TidemarkError) {
        let gaps = gaps
        guard !gaps.isEmpty else { return }
        let missing = gaps.map(\.name).joined(separator: " and ")
        throw TidemarkError(
            .invalidArgument,
            "Other machines can reach \(host), so the server needs users and encryption; it lacks \(missing).",
            fix: gaps.map { cure(of: $0, place: place) }.joined(separator: "\n\n")
                + "\n\nOr listen on this machine only: --listen 127.0.0.1:8080.")
    }

    private func cure(of gap: Gap, place: String) -> String {
        switch gap {
        case .identity:
            """
            For users, serve with --users, and add each one:
                tidemark user add anna \(place)
            """
        case .encryption:
            """
            For encryption, serve with --tls-certificate cert.pem --tls-key key.pem. If a proxy in front of the \
            server has the certificate, serve with --behind-proxy and the proxy's address instead. A certificate for \
            a first try, which devices trust by --ca-file cert.pem:
                openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=\(name) \\
                    -addext subjectAltName=\(alternativeName) -keyout key.pem -out cert.pem
            """
        }
    }

    /// The name of a first certificate: the address, unless it stands for all addresses.
    private var name: String { ["0.0.0.0", "::"].contains(host) ? "sync.example.org" : host }

    private var alternativeName: String {
        let isAddress = name.contains(":") || name.allSatisfy { $0.isNumber || $0 == "." }
        return "\(isAddress ? "IP" : "DNS"):\(name)"
    }
}

extension ListenSafety.Gap {
    fileprivate var name: String {
        switch self {
        case .identity: "users"
        case .encryption: "encryption"
        }
    }
}
