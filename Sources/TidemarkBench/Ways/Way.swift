import Foundation
import TidemarkCore

/// The ways of bringing a list to a client over plain HTTP, each as `FIVE-WAYS.md` describes it.
package enum Way: String, CaseIterable, Sendable {
    /// Everything, every time.
    case everything
    /// The rows that are newer by the app's own time.
    case newer
    /// The same in portions, without a tie-breaker.
    case portions
    /// Portions in the order of time and key.
    case keyset
    /// The client says what it has.
    case compare
    /// The feed of changes.
    case feed
    /// The feed, and once a week a comparison.
    case checkedFeed
}

/// One sync of a client of the list.
package struct WaySync {
    private let way: Way
    private let cities: String?
    private let file: DishFile
    private let requests: DishRequests
    private let day: Int

    /// What the client of a sync meets.
    package struct Setting {
        /// The way.
        package let way: Way
        /// The server's address.
        package let url: String
        /// The client's file.
        package let path: String
        /// The cities whose dishes the client wants, as `1,2`; nil for all.
        package let cities: String?
        /// The day of the month, from 0.
        package let day: Int
        /// The number of arriving dishes that the client fails to store.
        package let failing: Int
        /// The number of stored dishes that it loses before.
        package let losing: Int

        /// Creates a setting.
        package init(way: Way, url: String, path: String, cities: String?, day: Int, failing: Int, losing: Int) {
            self.way = way
            self.url = url
            self.path = path
            self.cities = cities
            self.day = day
            self.failing = failing
            self.losing = losing
        }
    }

    /// Opens the client's file.
    package init(_ setting: Setting) throws {
        way = setting.way
        cities = setting.cities
        day = setting.day
        requests = DishRequests(url: setting.url)
        file = try DishFile(path: setting.path)
        if setting.losing > 0 { try file.lose(setting.losing, seed: 20) }
        if let cities = setting.cities { try file.keep(cities: cities) }
        file.fail(setting.failing)
    }

    /// Syncs once.
    package func run() async throws {
        switch way {
        case .everything: try await everything()
        case .newer: try await newer()
        case .portions: try await portions()
        case .keyset: try await keyset()
        case .compare: try await compare()
        case .feed: try await feed()
        case .checkedFeed:
            try await feed()
            if day % 7 == 6 { try await CompareDishes(file, requests, filter: filter).run() }
        }
    }

    // MARK: The condition

    private var city: [(String, String)] { cities.map { [("city_id", "in.(\($0))")] } ?? [] }
    /// The dishes that the client keeps.
    private var present: [(String, String)] { city + [("is_deleted", "eq.0")] }
    private var filter: String { present.map { "\($0.0)=\($0.1)" }.joined(separator: "&") }

    // MARK: The ways

    private static let portion = 100

    private func everything() async throws {
        let items = present + [("limit", "all")]
        let (answer, tag) = try await requests.get("/tables/dish", items, unlike: try file["tag"])
        guard let answer else { return }
        try file.apply(answer.records ?? [], replacing: true)
        try file.remember("tag", tag)
    }

    private func newer() async throws {
        let last = try file["updated"]
        let items = city + (last.map { [("updated", "gt.\($0)")] } ?? []) + [("limit", "all")]
        let records = try await requests.get("/tables/dish", items).answer?.records ?? []
        try file.apply(records)
        try file.remember("updated", records.map(\.updated).max() ?? last)
    }

    private func portions() async throws {
        var isFull = true
        while isFull {
            let last = try file["updated"]
            let items = city + (last.map { [("updated", "gt.\($0)")] } ?? [])
            let rest = [("order", "updated"), ("limit", "\(Self.portion)")]
            let records = try await requests.get("/tables/dish", items + rest).answer?.records ?? []
            try file.apply(records)
            try file.remember("updated", records.last?.updated ?? last)
            isFull = records.count == Self.portion
        }
    }

    private func keyset() async throws {
        var items = city
        if let updated = try file["updated"], let id = try file["id"] {
            items.append(("or", "(updated.gt.\(updated),and(updated.eq.\(updated),id.gt.\(id)))"))
        }
        items += [("order", "updated"), ("limit", "\(Self.portion)")]
        try await list(items) { answer in
            guard let last = answer.records?.last else { return }
            try file.remember("updated", last.updated)
            try file.remember("id", "\(last.id)")
        }
    }

    /// Reads every page of a list.
    private func list(_ items: [(String, String)], _ note: (DishRequests.Answer) throws -> Void) async throws {
        var after: String?
        repeat {
            let place = after.map { [("after", $0)] } ?? []
            guard let answer = try await requests.get("/tables/dish", items + place).answer else { return }
            try file.apply(answer.records ?? [])
            try note(answer)
            after = answer.next
        } while after != nil
    }

    private func feed() async throws {
        guard try file["since"] != nil else { return try await begin() }
        var isMore = true
        while isMore {
            let place = [("tables", "dish"), ("since", try file["since"] ?? ""), ("limit", "\(Self.portion)")]
            guard let answer = try await requests.get("/changes", place + present).answer else { return }
            let changes = answer.changes ?? []
            try file.apply(
                changes.compactMap(\.record), gone: changes.filter { $0.record == nil }.compactMap { Int($0.key) })
            try file.remember("since", answer.next)
            isMore = answer.more == true
        }
    }

    /// Lists the dishes, and goes on with the feed from the first page's revision.
    private func begin() async throws {
        try await list(present + [("limit", "\(Self.portion)")]) { answer in
            if try file["since"] == nil { try file.remember("since", answer.since.map(String.init)) }
        }
    }

    private func compare() async throws {
        guard try file["since"] != nil else { return try await begin() }
        try await CompareDishes(file, requests, filter: filter).run()
    }
}
