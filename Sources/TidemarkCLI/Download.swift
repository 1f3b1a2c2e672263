import Tidemark
import TidemarkTerminal

/// A file made from a server's snapshot, with a bar that shows how far it is.
struct Download {
    /// The server.
    let url: String
    /// The zone.
    let zone: String
    /// What to show the server.
    let access: ServerAccess

    /// Makes a file by one of the ways of ``Tidemark/DeviceFileJoin``, then says what it is.
    func run(
        _ make: (_ join: DeviceFileJoin, _ progress: @escaping @Sendable (_ received: Int64, _ total: Int64?) -> Void)
            async throws -> DeviceStatus,
        saying summary: (DeviceStatus) -> String
    ) async throws {
        let bar = ProgressBar("downloading")
        let join = DeviceFileJoin(transport: try access.transport(to: url), server: url, zone: zone)
        let status = try await make(join) { bar.update($0, of: $1) }
        bar.clear()
        Terminal.line(summary(status))
    }
}
