import AsyncHTTPClient
import NIOHTTP1
import Tidemark
import TidemarkServer

/// Devices that ask for news, with the token of an identity provider.
enum SignInBenchmark: Benchmark {
    static let name = "sign-in"
    static let summary = "many conditional GETs at once, with tokens of an identity provider"

    private static let clients = 50
    private static let perClient = 100

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        [
            BenchCase(
                "304 on \(clients) connections, a token each", goal: .time(1.05),
                against: "the same at a server without identity"
            ) { try await job(setting) }
        ]
    }

    private static func job(_ setting: BenchSetting) async throws -> BenchJob {
        let place = try await Workplace(setting, rows: min(1_000, setting.rows))
        let device = try await place.device(at: try await place.join())
        for _ in 1...2 { try await device.engine.sync() }
        let tag = device.lastTag
        try device.close()
        try Agreement.require(tag != nil) { "the device sent no conditional GET" }
        let provider = try await BenchProvider(keysAt: place.path(), usersAt: place.path())
        let tokens = try (1...clients).map { try provider.token(for: "user\($0)") }
        let server = try await place.server(gate: provider.gate, rates: RequestRates(Self.limits))
        let count = setting.isTrial ? 2 : perClient
        let entityTag = tag?.entityTag ?? ""
        let load = { @Sendable (url: String, tokens: [String]?) async throws -> Sample in
            try await PushLoad(url: url, clients: clients, count: count).run(expecting: .notModified) { client in
                var request = HTTPClientRequest(url: "\(url)/sync?device=device\(client)")
                request.headers.add(name: "If-None-Match", value: entityTag)
                if let tokens { request.headers.add(name: "Authorization", value: "Bearer \(tokens[client - 1])") }
                return request
            }
        }
        // The first use of a token also verifies its signature, and records its user.
        _ = try await load(server.url, tokens)
        return BenchJob(
            ours: { way in
                // The relay leads to the server without identity, and counts what a token does not change.
                guard way == .direct else {
                    var sample = try await place.counting { try await load(place.url(way), nil) }
                    sample.wire?.requests = clients * count
                    return sample
                }
                return try await load(server.url, tokens)
            },
            ceiling: { try await load(place.url(), nil) },
            finish: {
                await server.end()
                try await place.end()
            }
        )
    }

    /// Limits that no run reaches: their cost counts, and no request is refused.
    private static var limits: RateLimits {
        var limits = RateLimits()
        for rule in RateLimits.Rule.allCases {
            let bound = RateLimits.Rate.valueMax
            limits[rule] = RateLimits.Rate(perMinute: bound, burst: bound)
        }
        return limits
    }
}
