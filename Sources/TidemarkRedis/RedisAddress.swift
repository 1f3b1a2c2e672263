import Foundation
import TidemarkCore

/// The address of a Redis or Valkey server: `redis://[[user]:password@]host[:port][/database]`.
package struct RedisAddress: Hashable, Sendable {
    let host: String
    let port: Int32
    let user: String?
    let password: String?
    let database: Int

    /// Reads an address; the error about an invalid one has no password.
    package init(_ text: String) throws {
        let parts = URLComponents(string: text)
        let path = parts?.path ?? ""
        let number = path.isEmpty || path == "/" ? 0 : Int(path.dropFirst())
        guard let parts, parts.scheme == "redis", let host = parts.host, !host.isEmpty, let database = number,
            database >= 0, parts.query == nil, let port = Int32(exactly: parts.port ?? 6_379)
        else {
            throw TidemarkError(
                .invalidArgument, "The address of Redis is invalid.",
                fix: "Write it as redis://[[user]:password@]host[:port][/database].")
        }
        self.host = host
        self.port = port
        self.database = database
        user = parts.user.flatMap { $0.isEmpty ? nil : $0 }
        password = parts.password
    }

    /// The host and port, without the password.
    package var place: String { "\(host):\(port)" }
}
