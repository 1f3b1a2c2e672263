internal import Foundation
internal import Synchronization
internal import TidemarkCore

/// The present keys of a provider; ``KeyRefresh`` decides about fetches, and at most one is in flight.
final class ProviderKeys: Sendable {
    let provider: IdentityProvider
    private let fetch: FetchKeys
    private let now: @Sendable () -> Int64
    private let state: Mutex<State>

    private struct State {
        var keys: KeySet
        /// The bytes from which the keys were read.
        var source: [UInt8]
        /// Counts the changes of the keys.
        var generation = 0
        /// Nil for keys that are not fetched.
        var refresh: KeyRefresh?
        var running: Task<Bool, Never>?
    }

    /// Reads or fetches the keys; throws `unusableFile` or `unavailable` if there is no usable one.
    init(of provider: IdentityProvider, fetch: FetchKeys, now: @escaping @Sendable () -> Int64)
        async throws(TidemarkError)
    {
        self.provider = provider
        self.fetch = fetch
        self.now = now
        let source: [UInt8]
        let keys: KeySet
        var refresh: KeyRefresh?
        do throws(KeySetProblem) {
            switch provider.keys {
            case .file(let path): source = try Self.bytes(of: path)
            case .secretFile(let path): source = Self.withoutLineBreakAtEnd(try Self.bytes(of: path))
            case .url(let url):
                let start = now()
                source = try await fetch.bytes(at: url)
                refresh = KeyRefresh()
                refresh?.begin(now: start)
                refresh?.end(isSuccess: true, now: start)
            }
            keys = try await Self.keySet(source, of: provider)
        } catch { throw Self.unusable(provider, error) }
        state = Mutex(State(keys: keys, source: source, refresh: refresh))
    }

    /// The number of changes of the keys: equal numbers mean equal keys.
    var generation: Int { state.withLock { $0.generation } }
    /// The keys that the server uses, and the reasons why it does not use others.
    var keys: KeySet { state.withLock { $0.keys } }
    /// Whether tokens may be verified with the keys: they are not too old.
    var areUsable: Bool { state.withLock { $0.refresh?.areUsable(now: now()) ?? true } }

    /// Returns the key for a token; fetches the keys if they may have changed, and throws while it cannot read them.
    func key(of id: String?, for algorithm: SignatureAlgorithm) async throws -> KeySet.Key {
        if !areUsable || !keys.contains(id) { _ = await fetchIfAllowed() }
        guard areUsable else { throw Self.unavailable(provider) }
        let keys = keys
        // The unknown key may be one that the server has failed to fetch.
        if !keys.contains(id), state.withLock({ $0.refresh?.hasFailed ?? false }) { throw Self.unavailable(provider) }
        return try keys.key(of: id, for: algorithm)
    }

    /// Fetches the keys if they are due; false if a fetch failed.
    func refreshIfDue() async -> Bool {
        guard state.withLock({ $0.refresh?.isDue(now: now()) ?? false }) else { return true }
        return await fetchIfAllowed()
    }

    /// Fetches the keys, or waits for the fetch in flight; does nothing if the latest one is too recent.
    private func fetchIfAllowed() async -> Bool {
        guard case .url(let url) = provider.keys else { return true }
        let start = now()
        let task = state.withLock { state -> Task<Bool, Never>? in
            if let running = state.running { return running }
            guard state.refresh?.mayFetch(now: start) ?? false else { return nil }
            state.refresh?.begin(now: start)
            let task = Task { await self.fetchNow(url, start: start) }
            state.running = task
            return task
        }
        return await task?.value ?? true
    }

    private func fetchNow(_ url: String, start: Int64) async -> Bool {
        let result: (source: [UInt8], keys: KeySet)?
        do throws(KeySetProblem) {
            let source = try await fetch.bytes(at: url)
            result = (source, try await Self.keySet(source, of: provider))
        } catch {
            // The former keys stay in use, and `hasFailed` says so.
            result = nil
        }
        state.withLock { state in
            state.refresh?.end(isSuccess: result != nil, now: start)
            state.running = nil
            guard let result, result.source != state.source else { return }
            state.keys = result.keys
            state.source = result.source
            state.generation += 1
        }
        return result != nil
    }
}

extension ProviderKeys {
    private static func keySet(_ source: [UInt8], of provider: IdentityProvider) async throws(KeySetProblem) -> KeySet {
        if case .secretFile = provider.keys { return try await KeySet(secret: source) }
        let keys = try await KeySet(json: source, algorithms: provider.algorithms)
        guard keys.count > 0 else {
            let reasons = keys.unusedKeys.isEmpty ? "" : " (\(keys.unusedKeys.prefix(5).joined(separator: "; ")))"
            throw KeySetProblem("it has no key that the server can use\(reasons)")
        }
        return keys
    }

    private static func bytes(of path: String) throws(KeySetProblem) -> [UInt8] {
        do { return Array(try Data(contentsOf: URL(filePath: path))) } catch {
            throw KeySetProblem("it cannot be read: \(error.localizedDescription)")
        }
    }

    /// The bytes of a secret, without the line break that editors put at the end of a text.
    private static func withoutLineBreakAtEnd(_ secret: [UInt8]) -> [UInt8] {
        let isText = secret.allSatisfy { (0x20...0x7e).contains($0) || $0 == 0x0a || $0 == 0x0d }
        guard isText, secret.last == 0x0a else { return secret }
        return secret.dropLast().last == 0x0d ? secret.dropLast(2) : secret.dropLast()
    }

    private static func unusable(_ provider: IdentityProvider, _ problem: KeySetProblem) -> TidemarkError {
        switch provider.keys {
        case .file(let path), .secretFile(let path):
            TidemarkError(
                .unusableFile, "The keys of provider \(provider.name) cannot be used, \(path): \(problem.reason).",
                fix: "Give a file with the keys of the provider, and check `algorithms`.")
        case .url(let url):
            TidemarkError(
                .unavailable, "The keys of provider \(provider.name) cannot be used, \(url): \(problem.reason).",
                fix: "Check the address, whether the provider runs, and `algorithms`.")
        }
    }

    private static func unavailable(_ provider: IdentityProvider) -> TidemarkError {
        TidemarkError(
            .unavailable, "The server cannot read the keys of the identity provider \(provider.name).",
            fix: "Try again later; the server's operator can check with `tidemark access check`.")
    }
}
