import Testing
import TidemarkCore

@testable import TidemarkServer

/// Rule 8: the rule for requests from pages of foreign origins, by itself.
@Suite struct BrowserPolicyTests {
    private typealias Headers = BrowserPolicy.Headers
    typealias Verdict = BrowserPolicy.Verdict

    private func verdict(
        host: String?, origin: String? = nil, site: String? = nil, by policy: BrowserPolicy = .standard,
        isLoopback: Bool = true
    ) -> Verdict { policy.verdict(on: Headers(host: host, origin: origin, fetchSite: site), isLoopback: isLoopback) }

    @Test(arguments: [
        "localhost", "localhost:8080", "LOCALHOST:1", "localhost.:8080", "127.0.0.1:8080", "127.0.0.1", "127.8.9.10:80",
        "[::1]:8080", "[::1]", nil,
    ]) func `a loopback server answers curl and devices under every loopback name`(host: String?) {
        #expect(verdict(host: host) == .passes)
    }

    @Test(arguments: [
        "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "127.evil.example",
        "localhost@evil.example", "[::2]:8080", "0.0.0.0:8080", "192.168.1.7", "128.0.0.1", "127.0.0.999", "", ":8080",
        "localhost:", "localhost:99999", "[::1", "a b", "localhost, evil.example",
    ]) func `DNS rebinding: a foreign host name for 127.0.0.1 gets no answer`(host: String) {
        #expect(verdict(host: host) == .refusesHost(host))
        // Not even if the page's Origin header names the same host.
        #expect(verdict(host: host, origin: "http://\(host)", site: "same-origin") == .refusesHost(host))
    }

    @Test func `an allowed proxy host is answered on any port`() throws {
        let policy = try BrowserPolicy(allowedOrigins: [], hosts: ["Sync.example.org", "[fd00::1]"])
        for host in ["sync.example.org", "sync.example.org:8443", "[fd00::1]:80", "localhost:1"] {
            #expect(verdict(host: host, by: policy) == .passes)
        }
        for isLoopback in [true, false] {
            #expect(verdict(host: "evil.example", by: policy, isLoopback: isLoopback) == .refusesHost("evil.example"))
        }
        #expect(verdict(host: "sync.example.org", isLoopback: false) == .passes)
        // A page that the proxy serves under the same name belongs to the server, with TLS or not.
        for origin in ["https://sync.example.org", "http://sync.example.org"] {
            #expect(verdict(host: "sync.example.org", origin: origin, by: policy) == .passes)
        }
        #expect(verdict(host: "sync.example.org:8443", origin: "https://sync.example.org:8443", by: policy) == .passes)
    }

    @Test(arguments: [
        ("localhost:8080", "http://localhost:8080"), ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("[::1]:8080", "http://[::1]:8080"), ("localhost", "http://localhost"), ("localhost:80", "http://localhost"),
        ("localhost", "https://localhost:443"),
    ]) func `the server's own pages are answered`(host: String, origin: String) {
        #expect(verdict(host: host, origin: origin) == .passes)
        #expect(verdict(host: host, origin: origin, site: "same-origin") == .passes)
    }

    @Test(arguments: [
        "https://evil.example", "http://evil.example:8080", "http://localhost:8081", "http://localhost",
        "https://localhost", "http://127.0.0.1:8080", "http://localhost.evil.example:8080", "null", "", "*",
        "http://localhost:8080/", "http://localhost:8080, https://evil.example", "localhost:8080",
        "file://localhost:8080", "chrome-extension://localhost:8080",
    ]) func `a page of a foreign origin gets no answer, whatever its Origin header says`(origin: String) throws {
        for site in [nil, "same-origin", "none"] {
            #expect(verdict(host: "localhost:8080", origin: origin, site: site) == .refusesOrigin(origin))
        }
        let policy = try BrowserPolicy(allowedOrigins: ["https://app.example"], hosts: [])
        #expect(verdict(host: "a.example", origin: origin, by: policy, isLoopback: false) == .refusesOrigin(origin))
    }

    @Test(arguments: ["cross-site", "same-site", "Same-Origin", "", "same-origin, none", "new"])
    func `a page's request without an Origin header is recognised by Sec-Fetch-Site`(site: String) {
        #expect(verdict(host: "localhost:8080", site: site) == .refusesSite(site))
        #expect(verdict(host: "localhost:8080", origin: "http://localhost:8080", site: site) == .refusesSite(site))
    }

    @Test(arguments: ["same-origin", "none"]) func `a URL typed by the user is answered`(site: String) {
        #expect(verdict(host: "localhost:8080", site: site) == .passes)
    }

    @Test(arguments: [
        ("https://app.example", "https://app.example"), ("https://app.example:443", "https://app.example"),
        ("HTTPS://App.Example", "https://app.example"), ("http://localhost:5173", "http://localhost:5173"),
        ("capacitor://localhost", "capacitor://localhost"),
    ]) func `a page of an allowed origin gets the answer and CORS headers`(named: String, sent: String) throws {
        let policy = try BrowserPolicy(allowedOrigins: [named])
        for site in [nil, "cross-site", "same-site"] {
            #expect(verdict(host: "localhost:8080", origin: sent, site: site, by: policy) == .isAllowed(origin: sent))
        }
        for other in ["https://app.example.evil", "https://app.example:8443", "http://app.example"] {
            #expect(verdict(host: "localhost:8080", origin: other, by: policy) == .refusesOrigin(other))
        }
        // A page's origin has to be complete.
        #expect(verdict(host: "localhost:8080", site: "cross-site", by: policy) == .refusesSite("cross-site"))
        #expect(verdict(host: "evil.example", origin: sent, by: policy) == .refusesHost("evil.example"))
    }

    @Test(arguments: [
        "*", "null", "", "app.example", "https://", "https://app.example/", "https://*.example",
        "https://a.example,https://b.example", "://a.example", "https://u@a.example",
    ]) func `malformed origins and the wildcard cannot be allowed`(origin: String) {
        let error = #expect(throws: TidemarkError.self) { try BrowserPolicy(allowedOrigins: [origin]) }
        #expect(error?.code == .invalidArgument)
        #expect(error?.fix.contains("https://app.example") == true)
    }

    @Test(arguments: ["", "*", "https://a.example", "a.example:80", "a.example/x", "*.example"])
    func `malformed host names cannot be allowed`(host: String) {
        let error = #expect(throws: TidemarkError.self) { try BrowserPolicy(allowedOrigins: [], hosts: [host]) }
        #expect(error?.code == .invalidArgument)
    }
}
