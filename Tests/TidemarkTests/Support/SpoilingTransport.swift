import Synchronization
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A way to the server on which every answer is changed.
final class SpoilingTransport: ForwardingTransport {
    let real: InProcessTransport
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
}
