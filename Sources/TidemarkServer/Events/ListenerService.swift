internal import Logging
internal import ServiceLifecycle
internal import TidemarkEngine

/// Serves listeners: heartbeats, checks for other programs' writes and changes of access, and at the end a `bye`.
struct ListenerService: Service {
    let service: any SyncService
    let accessWatch: AccessWatch
    let logger: Logger

    func run() async throws {
        let pause = Duration.milliseconds(service.fanOut.tickMilliseconds)
        await cancelWhenGracefulShutdown {
            await withDiscardingTaskGroup { group in
                // Three tasks, because a check may wait for a store, but a heartbeat must not.
                group.addTask { await runRepeatedly(every: pause) { service.fanOut.tick() } }
                group.addTask { await runRepeatedly(every: pause) { await look() } }
                group.addTask { await runRepeatedly(every: pause) { await lookAtAccess() } }
            }
        }
        service.fanOut.close()
    }

    private func look() async {
        for zone in service.fanOut.zones {
            do { try await service.look(zone: zone) } catch  where !Task.isCancelled {
                logger.warning("cannot log other programs' changes to zone \(zone): \(error)")
            } catch { return }
        }
    }

    /// Wakes all listeners when access has changed, so that each checks its own.
    private func lookAtAccess() async {
        guard service.fanOut.listenerCount > 0 else { return }
        do { if try await accessWatch.look() { service.fanOut.beat() } } catch  where !Task.isCancelled {
            logger.warning("cannot look at changes of users and members: \(error)")
        } catch { return }
    }
}

/// Repeats a step until the task is cancelled.
func runRepeatedly(every pause: Duration, _ step: () async -> Void) async {
    while !Task.isCancelled {
        do { try await Task.sleep(for: pause) } catch { return }
        await step()
    }
}
