import Foundation
import Synchronization
import Tidemark

/// The time and the random ids of one device, both under the world's control.
final class VirtualEnvironment: Sendable {
    private struct State {
        var microseconds: Int64 = 0
        /// The difference between the device's clock and the world's.
        var skew: Int64 = 0
        var bits: SeededBits
    }

    /// Friday, 2026-01-02 00:00 UTC: when every run begins.
    private static let beginning: TimeInterval = 1_767_312_000

    private let state: Mutex<State>

    /// Makes the environment of a device; equal seeds give equal ids.
    init(seed: UInt64) { state = Mutex(State(bits: SeededBits(seed: seed))) }

    /// The environment that a device gets from the world.
    var environment: SyncEngine.Environment { SyncEngine.Environment(now: { self.now }, newID: { self.newID() }) }

    /// The device's time.
    var now: Date {
        let microseconds = state.withLock { $0.microseconds + $0.skew }
        return Date(timeIntervalSince1970: Self.beginning + Double(microseconds) / 1_000_000)
    }

    /// The device's time, in milliseconds since 1970.
    var milliseconds: Int64 { SimulatedServer.now + state.withLock { $0.microseconds + $0.skew } / 1_000 }

    /// Moves the clock to the world's time.
    func advance(to microseconds: Int64) { state.withLock { $0.microseconds = microseconds } }

    /// Sets the difference between the device's clock and the world's.
    func skew(by microseconds: Int64) { state.withLock { $0.skew = microseconds } }

    /// The next 128 random bits.
    func newID() -> UUID {
        let (high, low) = state.withLock { ($0.bits.next(), $0.bits.next()) }
        var bytes = (high, low)
        return withUnsafeBytes(of: &bytes) { raw in
            var uuid = raw.loadUnaligned(as: uuid_t.self)
            uuid.6 = uuid.6 & 0x0F | 0x40
            uuid.8 = uuid.8 & 0x3F | 0x80
            return UUID(uuid: uuid)
        }
    }
}
