import Testing
import TidemarkCore

@testable import TidemarkTerminal

/// The conditions under which a server may listen, as a value: without a socket.
@Suite struct ListenSafetyTests {
    private static let everyCase = ListenSafety.Identity.allCases.flatMap { identity in
        ListenSafety.Encryption.allCases.map { (identity, $0) }
    }

    @Test(arguments: ["127.0.0.1", "localhost", "::1", "127.9.9.9"])
    func `on loopback, a server may do without users and encryption`(host: String) throws {
        for (identity, encryption) in Self.everyCase {
            let safety = ListenSafety(host: host, identity: identity, encryption: encryption)
            #expect(safety.gaps.isEmpty)
            try safety.require(place: "--data d")
        }
    }

    @Test(arguments: ["0.0.0.0", "::", "192.0.2.1", "sync.example.org", "127.0.0.1.example.org"])
    func `elsewhere, a server lacks exactly the conditions that nobody has chosen`(host: String) {
        for (identity, encryption) in Self.everyCase {
            let safety = ListenSafety(host: host, identity: identity, encryption: encryption)
            #expect(safety.gaps.contains(.identity) == (identity == .none))
            #expect(safety.gaps.contains(.encryption) == (encryption == .none))
            let isRefused: Bool
            do throws(TidemarkError) {
                try safety.require(place: "--data ./d")
                isRefused = false
            } catch { isRefused = error.code == .invalidArgument }
            #expect(isRefused == !safety.gaps.isEmpty)
        }
    }

    @Test func `the refusal names each missing condition, and only these, with the command that adds it`() {
        let text = { (identity: ListenSafety.Identity, encryption: ListenSafety.Encryption, host: String) -> String in
            do throws(TidemarkError) {
                try ListenSafety(host: host, identity: identity, encryption: encryption).require(place: "--data ./d")
                return ""
            } catch { return "\(error)" }
        }
        let both = text(.none, .none, "0.0.0.0")
        #expect(both.contains("lacks users and encryption"))
        #expect(both.contains("tidemark user add anna --data ./d"))
        #expect(both.contains("--tls-certificate") && both.contains("--behind-proxy"))
        #expect(both.contains("subjectAltName=DNS:sync.example.org"))
        let users = text(.none, .tls, "0.0.0.0")
        #expect(users.contains("lacks users.") && !users.contains("openssl"))
        let encryption = text(.users, .none, "192.0.2.1")
        #expect(encryption.contains("lacks encryption.") && !encryption.contains("tidemark user add"))
        #expect(encryption.contains("subjectAltName=IP:192.0.2.1"))
        #expect(text(.renounced, .proxy, "0.0.0.0") == "")
    }
}
