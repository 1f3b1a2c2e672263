import Synchronization
internal import Tidemark
public import TidemarkCore

/// A transport that can fail for good once a snapshot has arrived.
public final class EndingTransport: ForwardingTransport {
    /// The next transport.
    public let real: InProcessTransport
    private let state = Mutex((ends: false, hasEnded: false))

    /// Makes a transport that forwards everything.
    public init(_ real: InProcessTransport) { self.real = real }

    /// Whether the transport ends after the next snapshot; a new value begins anew.
    public var endsAfterSnapshot: Bool {
        get { state.withLock(\.ends) }
        set { state.withLock { $0 = (newValue, false) } }
    }

    /// Forwards a round, or fails after the end.
    public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        guard !state.withLock(\.hasEnded) else { throw FaultPlan.lost }
        return try await real.sync(zone: zone, body: body)
    }

    /// Forwards a download.
    public func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        try await real.snapshot(zone: zone, since: base, to: path, progress: progress)
        state.withLock { $0.hasEnded = $0.ends }
    }
}
