import Synchronization
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A transport that changes every answer.
final class SpoilingTransport: ForwardingTransport {
    let real: InProcessTransport
    private let spoil: Mutex<@Sendable (String) throws -> String>
    private let offersSnapshots: Mutex<Bool>
    private let offered = Mutex(0)
    private let answers = Mutex<[String]>([])

    /// The answers since the last ``change(offersSnapshots:with:)``, as the device received them.
    var changedAnswers: [String] { answers.withLock(\.self) }
    /// The number of snapshots that the device has taken.
    var snapshotCount: Int { offered.withLock(\.self) }

    /// Without `offersSnapshots`, snapshots are unusable, too.
    init(
        wrapping real: InProcessTransport, offersSnapshots: Bool = true,
        _ spoil: @escaping @Sendable (String) throws -> String
    ) {
        self.real = real
        self.spoil = Mutex(spoil)
        self.offersSnapshots = Mutex(offersSnapshots)
    }

    /// Sets another change of the answers from now on.
    func change(offersSnapshots: Bool, with spoil: @escaping @Sendable (String) throws -> String) {
        self.spoil.withLock { $0 = spoil }
        self.offersSnapshots.withLock { $0 = offersSnapshots }
        answers.withLock { $0 = [] }
    }

    func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        guard offersSnapshots.withLock(\.self) else {
            throw TidemarkError(.invalidResponse, "No snapshot of Tidemark.", fix: "f")
        }
        offered.withLock { $0 += 1 }
        try await real.snapshot(zone: zone, since: base, to: path, progress: progress)
    }

    func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let answer = try await real.sync(zone: zone, body: body)
        let spoil = spoil.withLock { $0 }
        let changed = try spoil(String(decoding: answer, as: UTF8.self))
        answers.withLock { $0.append(changed) }
        return Array(changed.utf8)
    }
}
