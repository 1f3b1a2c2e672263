internal import Logging
internal import ServiceLifecycle
internal import TidemarkEngine

/// Writes the contacts of devices once a minute, and at the end those of the last requests.
struct ContactService: Service {
    private static let pause = Duration.seconds(60)
    let service: any SyncService
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown { await runRepeatedly(every: Self.pause) { await keep() } }
        // A task of its own, because this one may be cancelled.
        await Task { await keep() }.value
    }

    private func keep() async {
        do { try await service.keepContacts() } catch  where !Task.isCancelled {
            logger.warning("cannot write the contacts of devices: \(error)")
        } catch { return }
    }
}
