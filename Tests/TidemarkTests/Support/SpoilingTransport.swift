import Synchronization
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A way to the server on which every answer is changed.
final class SpoilingTransport: Transport {
    private let real: InProcessTransport
    private let spoil: Mutex<@Sendable (String) throws -> String>

    init(
        wrapping real: InProcessTransport,
        _ spoil: @escaping @Sendable (String) throws -> String
    ) {
        self.real = real
        self.spoil = Mutex(spoil)
    }

    /// Changes the answers in another way from now on.
    func change(with spoil: @escaping @Sendable (String) throws -> String) {
        self.spoil.withLock { $0 = spoil }
    }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let answer = try await real.sync(zone: zone, body: body)
        let spoil = spoil.withLock { $0 }
        return Array(try spoil(String(decoding: answer, as: UTF8.self)).utf8)
    }

    func snapshot(
        zone: String,
        to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        try await real.snapshot(zone: zone, to: path, progress: progress)
    }

    func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        try await real.fingerprints(zone: zone, body: body)
    }

    func schema(zone: String) async throws -> [UInt8] { try await real.schema(zone: zone) }

    func digest(zone: String) async throws -> ZoneDigest { try await real.digest(zone: zone) }
}
