import Foundation

/// An external program that a test needs and a machine may lack.
struct Tool: Sendable {
    /// Its path; nil if this machine lacks it.
    let path: String?

    /// Looks in the places of programs for the first of these names.
    init(_ names: String...) {
        let variable = ProcessInfo.processInfo.environment["PATH"] ?? ""
        // A web server is an administrator's program, and a Mac's browser is in neither.
        let folders =
            variable.split(separator: ":").map(String.init) + [
                "/usr/sbin", "/Applications/Google Chrome.app/Contents/MacOS",
                "/Applications/Chromium.app/Contents/MacOS",
            ]
        path = names.lazy.flatMap { name in folders.map { "\($0)/\(name)" } }.first {
            FileManager.default.isExecutableFile(atPath: $0)
        }
    }

    /// Whether this machine has it.
    var isThere: Bool { path != nil }

    static let chromium = Tool("chromium", "chromium-browser", "google-chrome", "Google Chrome", "Chromium")
    static let nginx = Tool("nginx")
    static let caddy = Tool("caddy")
    static let python = Tool("python3")
}

/// A port without a listener, below the range that the system gives to connections.
func freePort() throws -> Int {
    for port in (20_000..<32_000).shuffled() where isFree(port) { return port }
    throw POSIXError(.EADDRINUSE)
}

private func isFree(_ port: Int) -> Bool {
    #if os(Linux)
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    #else
    let descriptor = socket(AF_INET, SOCK_STREAM, 0)
    #endif
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
    return withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
    }
}
