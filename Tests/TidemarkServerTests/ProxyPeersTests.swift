import Testing
import TidemarkCore

@testable import TidemarkServer

/// The machines that may connect without encryption, as a value: without a socket.
@Suite struct ProxyPeersTests {
    @Test func `every machine but the proxies and this one is refused, whatever it says`() throws {
        let proxies = try ProxyPeers(["10.0.0.2", "FD00::0:1"])
        for peer in ["10.0.0.3", "192.0.2.7", "fd00::2", "::ffff:10.0.0.3"] {
            for header in [nil, "10.0.0.2", "127.0.0.1"] {
                guard case .refuses = proxies.verdict(peer: peer, forwardedFor: header) else {
                    Issue.record("\(peer) with \(header ?? "no header") passes")
                    continue
                }
            }
        }
        #expect(proxies.verdict(peer: nil, forwardedFor: nil) == .refuses("an unknown address"))
        #expect(proxies.verdict(peer: "127.0.0.1", forwardedFor: "192.0.2.7") == .client("127.0.0.1"))
    }

    @Test func `the client is the last address that the proxy adds, not the first that the client claims`() throws {
        let proxies = try ProxyPeers(["10.0.0.2", "fd00::1"])
        for peer in ["10.0.0.2", "::ffff:10.0.0.2", "fd00:0:0::1"] {
            let claimed = "203.0.113.9, 198.51.100.1"
            #expect(proxies.verdict(peer: peer, forwardedFor: claimed) == .client("198.51.100.1"))
            #expect(proxies.verdict(peer: peer, forwardedFor: "2001:DB8::0:5") == .client("2001:db8::5"))
        }
        for header in [nil, "", "unknown", "198.51.100.1, nobody"] {
            #expect(proxies.verdict(peer: "10.0.0.2", forwardedFor: header) == .client("10.0.0.2"))
        }
    }

    @Test(arguments: ["nginx", "10.0.0.2:80", "10.0.0.0/8", "", "10.0.0"])
    func `an address that is none is refused at the start`(text: String) {
        #expect(throws: TidemarkError.self) { try ProxyPeers([text]) }
    }
}
