import Synchronization
import TidemarkCore

/// The zones whose files could not be opened, with reasons, until one opens; safe to use from any task.
final class UnservedZones: Sendable {
    private let reasons = Mutex<[String: String]>([:])
    private let warn: @Sendable (String) -> Void

    /// `warn` receives each new reason, as text for the operator.
    init(warn: @escaping @Sendable (String) -> Void) { self.warn = warn }

    /// The zones with their reasons, one line each.
    var lines: [String] { reasons.withLock { $0.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" } } }

    /// Opens a zone, and keeps the reason if that fails; tables that cannot be synced are `unavailable`.
    func opening<Store>(_ zone: String, _ open: () async throws -> Store) async throws -> Store {
        do {
            let store = try await open()
            forget(zone)
            return store
        } catch let problem as UnsyncableSchema {
            let error = TidemarkError(
                .unavailable, "The tables of zone \(zone) cannot be synced.",
                fix: "Repair them in the zone's file. \(problem.description)")
            keep(error, of: zone)
            throw error
        } catch {
            keep(error, of: zone)
            throw error
        }
    }

    func forget(_ zone: String) { reasons.withLock { $0[zone] = nil } }

    private func keep(_ error: any Error, of zone: String) {
        let reason = (error as? TidemarkError).map { "\($0.message) \($0.fix)" } ?? "\(error)"
        let isNew = reasons.withLock { reasons in
            defer { reasons[zone] = reason }
            return reasons[zone] != reason
        }
        if isNew { warn("zone \(zone) is not served: \(reason)") }
    }
}
