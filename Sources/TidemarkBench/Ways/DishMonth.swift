import AsyncHTTPClient
import Foundation
import NIOCore
import TidemarkCore

/// A month of a list: each day the server's rows change, and then a client syncs in a process of its own.
struct DishMonth {
    /// What a client has in the end, and what it took.
    struct Outcome {
        /// The bytes of each day in both directions.
        var daily: [Sample.Wire] = []
        /// The greatest memory of the client's process on any day, in bytes.
        var peakBytes = 0
        /// The dishes that the client does not have.
        var missing = 0
        /// The dishes that it has in another state.
        var stale = 0
        /// The dishes that it should have removed.
        var undeleted = 0

        /// The whole traffic.
        var wire: Sample.Wire {
            daily.reduce(into: Sample.Wire(requests: 0, bytesUp: 0, bytesDown: 0)) { sum, day in
                sum.requests += day.requests
                sum.bytesUp += day.bytesUp
                sum.bytesDown += day.bytesDown
            }
        }
    }

    /// A client of the list.
    struct Client {
        let way: Way
        /// The cities whose dishes it wants; nil for all.
        var cities: String?
        let path: String
        var outcome = Outcome()
    }

    private let server: ServerProcess
    private var days: DishDays

    init(_ days: DishDays, on server: ServerProcess) {
        self.days = days
        self.server = server
    }

    /// Runs all days for some clients, and returns them.
    mutating func run(_ clients: [Client]) async throws -> [Client] {
        var clients = clients
        for day in 0..<days.days {
            if day > 0 { try await change(on: day) }
            for index in clients.indices { try await sync(&clients[index], on: day) }
        }
        for index in clients.indices { try await check(&clients[index]) }
        return clients
    }

    /// Syncs once more with other cities; the outcome is that of this sync.
    func sync(_ client: Client, wanting cities: String) async throws -> Client {
        var client = client
        client.cities = cities
        client.outcome = Outcome()
        try await sync(&client, on: days.days)
        try await check(&client)
        return client
    }

    // MARK: The server's side

    private mutating func change(on day: Int) async throws {
        let requests = DishRequests(url: server.url())
        for set in days.changes(on: day) {
            let revision = try await requests.get("/tables/dish", [("limit", "1")]).answer?.revision ?? 0
            _ = try await requests.post("/sync", #"{"maxRevision":\#(revision),"echo":"ids","changeSets":[\#(set)]}"#)
        }
    }

    // MARK: The client's side

    private func sync(_ client: inout Client, on day: Int) async throws {
        var arguments = [
            "way", client.way.rawValue, "--url", server.url(.counted), "--file", client.path, "--day", "\(day)",
        ]
        if let cities = client.cities { arguments += ["--cities", cities] }
        if day == days.failingDay { arguments += ["--failing", "\(days.lost)"] }
        if day == days.losingDay { arguments += ["--losing", "\(days.lost)"] }
        var peak: Int?
        let sample = try await server.wire {
            let process = try ChildProcess(arguments, of: "tidemark-dev")
            try await process.finished()
            peak = process.peakBytes
        }
        client.outcome.daily.append(sample)
        client.outcome.peakBytes = max(client.outcome.peakBytes, peak ?? 0)
    }

    /// Compares a client's dishes with the server's.
    private func check(_ client: inout Client) async throws {
        let city = client.cities.map { [("city_id", "in.(\($0))")] } ?? []
        let items = city + [("is_deleted", "eq.0"), ("limit", "all")]
        let records = try await DishRequests(url: server.url()).get("/tables/dish", items).answer?.records ?? []
        let ownDishes = try DishFile(path: client.path).dishes()
        let truth = Dictionary(uniqueKeysWithValues: records.map { ($0.id, $0) })
        client.outcome.missing = truth.keys.filter { ownDishes[$0] == nil }.count
        client.outcome.stale = truth.filter { ownDishes[$0.key].map { [row = $0.value] in $0 != row } ?? false }.count
        client.outcome.undeleted = ownDishes.keys.filter { truth[$0] == nil }.count
    }
}
