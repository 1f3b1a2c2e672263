import Tidemark
import TidemarkTerminal

/// Downloads a server's snapshot into a new file, with a progress bar.
struct Download {
    let url: String
    let zone: String
    let access: ServerAccess
    /// Whether to ask a person for a sign-in token if the server wants one.
    var asksForToken = false
    /// The functions that the zone's views and triggers may call in the new file.
    var functions: [String] = []

    /// Creates a file by a method of ``Tidemark/DeviceFileJoin``, then prints its summary.
    func run(
        _ make: (_ join: DeviceFileJoin, _ progress: @escaping @Sendable (_ received: Int64, _ total: Int64?) -> Void)
            async throws -> DeviceStatus, saying summary: (DeviceStatus) -> String
    ) async throws {
        let bar = ProgressBar("downloading")
        let transport = try access.transport(to: url, asksForToken: asksForToken)
        var join = DeviceFileJoin(transport: transport, server: url, zone: zone)
        join.functions = functions
        let status = try await make(join) { received, total in
            if received == 0, total == nil { bar.wait("the server is writing the file with the rows") }
            bar.update(received, of: total)
        }
        bar.clear()
        Terminal.line(summary(status))
    }
}
