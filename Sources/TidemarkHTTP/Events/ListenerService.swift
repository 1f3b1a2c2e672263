internal import Logging
internal import ServiceLifecycle
internal import TidemarkServer

/// What goes on as long as anybody may listen: signs of life, looks for other programs' writes, and
/// in the end a good bye, so that the connections can end.
struct ListenerService: Service {
    private let service: any SyncService
    private let logger: Logger

    init(_ service: any SyncService, _ logger: Logger) {
        self.service = service
        self.logger = logger
    }

    func run() async throws {
        let pause = Duration.milliseconds(service.fanOut.tickMilliseconds)
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                // A look may have to wait for the store, a sign of life may not.
                group.addTask { await repeated(every: pause) { service.fanOut.tick() } }
                group.addTask { await repeated(every: pause) { await look() } }
            }
        }
        service.fanOut.close()
    }

    private func look() async {
        for zone in service.fanOut.zones {
            do { try await service.look(zone: zone) } catch  where !Task.isCancelled {
                logger.warning("what others wrote into zone \(zone) is not taken in: \(error)")
            } catch { return }
        }
    }

    /// Does something again and again until the task is cancelled.
    private func repeated(every pause: Duration, _ step: () async -> Void) async {
        while !Task.isCancelled {
            do { try await Task.sleep(for: pause) } catch { return }
            await step()
        }
    }
}
