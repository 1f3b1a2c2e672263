import TidemarkCore

/// The background sync of an account: one connection for all zones, and one list as its timer.
///
/// The server announces new revisions of all zones of the user on one stream. Whenever it cannot, the device
/// fetches the list of zones at intervals: with nothing new, one conditional GET for all zones together.
/// Each open zone syncs when one of the two names a revision that its file lacks, and after local commits.
extension SyncAccount {
    /// The longest pause between two rounds of a zone; hints and edits start them earlier.
    static let roundInterval = Duration.seconds(3_600)
    /// A stream of the lists of the user's zones: one after each change that the device learns of.
    public nonisolated var zoneLists: AsyncStream<[ZoneSummary]> { lists.stream() }

    /// Syncs the zones that are open now and later, until ``stop()``.
    ///
    /// - Parameter interval: The pause between two looks at the list of zones.
    public func start(every interval: Duration = .seconds(30)) async {
        guard listening == nil else { return }
        listen(every: interval)
        for zone in zones.values { await zone.sync.start(every: Self.roundInterval, isLive: false) }
    }

    /// Ends the background sync of all zones.
    public func stop() async {
        listening?.cancel()
        listening = nil
        for zone in zones.values { await zone.sync.stop() }
    }

    /// Makes the connection anew, because another user is signed in, or nobody.
    func restartListening() {
        guard listening != nil else { return }
        listening?.cancel()
        listen(every: interval)
    }

    private func listen(every interval: Duration) {
        self.interval = interval
        // The tasks do not keep the account alive.
        let account: @Sendable () -> SyncAccount? = { [weak self] in self }
        listening = Task {
            await withTaskGroup { group in
                group.addTask { await Self.lookAtList(account, every: interval) }
                group.addTask { await Self.hearEvents(account) }
            }
        }
    }

    // MARK: The list

    private static func lookAtList(_ account: @Sendable () -> SyncAccount?, every interval: Duration) async {
        var pace = Pace(interval: interval)
        while !Task.isCancelled {
            do {
                if await account()?.isSignedIn == true { try await account()?.refreshList() }
                pace.recordSuccess()
            } catch { pace.recordFailure(retryAfterSeconds: (error as? TidemarkError)?.retryAfterSeconds) }
            do { try await Task.sleep(for: pace.pause(jitter: Pace.systemJitter())) } catch { return }
        }
    }

    /// Fetches the list of zones if it has changed, and passes the revisions on to the open zones.
    func refreshList() async throws {
        let session = try requireSession()
        let user = user
        guard let fresh = try await session.zones(since: list.tag), self.user == user else { return }
        let former = list
        list = fresh
        for summary in fresh.zones { if let latest = summary.latest { hear(latest) } }
        let names = { (zones: [ZoneSummary]) in
            zones.map { "\($0.zone) \($0.role) \($0.title ?? "") \($0.members ?? -1)" }
        }
        guard names(former.zones) != names(fresh.zones) else { return }
        lists.send(shownZones)
        // A zone that left the list is asked once, so that the device learns why.
        let gone = Set(former.zones.map(\.zone)).subtracting(fresh.zones.map(\.zone))
        for zone in openZones where gone.contains(zone.file.zone) { await zone.sync.credentialsChanged() }
    }

    /// The zones as the app opens them: the private one has its own name at the server only.
    var shownZones: [ZoneSummary] {
        list.zones.map { summary in
            var shown = summary
            if shown.kind == .private { shown.zone = Self.privateZone }
            return shown
        }
    }

    private func hear(_ revision: ZoneRevision) {
        let isPrivate = list.zones.contains { $0.zone == revision.zone && $0.kind == .private }
        let name = isPrivate ? Self.privateZone : revision.zone
        let hint = Hint(end: ZoneRevision(zone: name, epoch: revision.epoch, revision: revision.revision))
        for zone in openZones where zone.file.zone == name { zone.sync.hear(hint) }
    }

    // MARK: The stream

    private static func hearEvents(_ account: @escaping @Sendable () -> SyncAccount?) async {
        await holdConnection(endsAccess: { $0.recovery == .signIn }, credentialsMark: { nil }) { heard in
            // The end of the account cancels this task.
            guard let session = try await account()?.requireSession() else { throw CancellationError() }
            let (events, arrived) = AsyncStream.makeStream(of: PushEvent.self, bufferingPolicy: .unbounded)
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { for await event in events { await account()?.receive(event) } }
                defer { arrived.finish() }
                try await session.listenToAllZones { event in
                    heard(event)
                    arrived.yield(event)
                }
            }
        }
    }

    private func receive(_ event: PushEvent) async {
        switch event {
        case .moved(let revision):
            hear(revision)
            // The first revision of a zone that the list does not have yet.
            if !list.zones.contains(where: { $0.zone == revision.zone }) { await refreshQuietly() }
        case .zonesChanged: await refreshQuietly()
        case .alive, .changed, .bye: break
        }
    }

    private func refreshQuietly() async {
        // The next look at the list reports the same failure to its pace.
        try? await refreshList()
    }
}
