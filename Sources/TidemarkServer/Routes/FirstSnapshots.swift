internal import TidemarkCore
internal import TidemarkEngine

/// The snapshots for devices without rows: each is built once, however long that takes and however many wait for it.
///
/// A request waits for ``patience``, shorter than clients and proxies bear silence. Then its client is asked to come
/// back, while the build goes on. The finished file stays for ``keeping``, so a client that comes back gets it, though
/// the zone may have newer revisions by then: a device takes these with its first sync.
actor FirstSnapshots {
    private enum Build {
        /// Requests wait; `isPromised` says whether clients were asked to come back.
        case running(waiting: [Int: CheckedContinuation<SnapshotFile?, any Error>], isPromised: Bool)
        case ready(SnapshotFile)
    }

    private static let patience = Duration.seconds(10)
    private static let keeping = Duration.seconds(60)
    private let service: any SyncService
    private let clock: any Clock<Duration>
    private var builds: [String: Build] = [:]
    /// Counts the requests, so that a timer ends its own only.
    private var number = 0

    init(_ service: any SyncService, clock: any Clock<Duration>) {
        self.service = service
        self.clock = clock
    }

    /// Returns a snapshot to start from, lent to the caller; throws `snapshotPending` after the longest wait.
    func snapshot(_ access: ZoneAccess) async throws -> SnapshotFile {
        if case .ready(let file) = builds[access.zone], let lent = try await service.snapshot(access, tag: file.tag) {
            return lent
        }
        guard let file = try await wait(access) else { throw Refusal(Self.pending) }
        return file
    }

    /// Waits for a build in progress, or begins one; nil when the patience is over.
    private func wait(_ access: ZoneAccess) async throws -> SnapshotFile? {
        let zone = access.zone
        number += 1
        let number = number
        let timer = Task {
            do { try await clock.sleep(for: Self.patience) } catch { return }
            giveUp(number, zone)
        }
        defer { timer.cancel() }
        return try await withCheckedThrowingContinuation { continuation in
            if case .running(var waiting, let isPromised) = builds[zone] {
                waiting[number] = continuation
                builds[zone] = .running(waiting: waiting, isPromised: isPromised)
            } else {
                builds[zone] = .running(waiting: [number: continuation], isPromised: false)
                Task { await build(access) }
            }
        }
    }

    private func giveUp(_ number: Int, _ zone: String) {
        guard case .running(var waiting, _) = builds[zone], let request = waiting.removeValue(forKey: number) else {
            return
        }
        builds[zone] = .running(waiting: waiting, isPromised: true)
        request.resume(returning: nil)
    }

    private func build(_ access: ZoneAccess) async {
        let result: Result<SnapshotFile, any Error>
        do { result = .success(try await service.snapshot(access, since: .nothing)) } catch { result = .failure(error) }
        guard case .running(let waiting, let isPromised) = builds[access.zone] else { return }
        let requests = waiting.sorted { $0.key < $1.key }.map(\.value)
        switch result {
        case .failure(let error):
            builds[access.zone] = nil
            for request in requests { request.resume(throwing: error) }
        case .success(let file):
            builds[access.zone] = .ready(file)
            for request in requests {
                do { request.resume(returning: try await lend(file, access)) } catch { request.resume(throwing: error) }
            }
            if isPromised { await keep() }
            builds[access.zone] = nil
            await service.releaseSnapshot(file)
        }
    }

    private func lend(_ file: SnapshotFile, _ access: ZoneAccess) async throws -> SnapshotFile {
        if let lent = try await service.snapshot(access, tag: file.tag) { return lent }
        return try await service.snapshot(access, since: .nothing)
    }

    private func keep() async {
        do { try await clock.sleep(for: Self.keeping) } catch {
            // Nobody cancels this task; without a pause the file just ends earlier.
            return
        }
    }

    private static let pending: TidemarkError = {
        var error = TidemarkError(
            .snapshotPending, "The server is still writing the file with the zone's rows.",
            fix: "Ask again; the file is written once for all who wait.")
        error.retryAfterSeconds = 2
        return error
    }()
}
