import TidemarkHistory

/// A client without rows reads a record that it knows, or a page of a list, over REST.
struct ReadOverRest: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.hasClients ? decisions.pick([8, 8, 4, 12]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let client = world.idleClient() else { return false }
        let known = client.looks.keys.sorted()
        guard !known.isEmpty, world.decisions.chance(40) else {
            let table = world.decisions.pick(ZoneSchema.tables).name
            let limit = world.decisions.pick([100, 2, 5])
            let query = [(name: "limit", value: "\(limit)")]
            try world.send(RestRequest(method: "GET", path: "tables/\(table)", query: query), from: client)
            return true
        }
        let record = known[world.decisions.decide(known.count)]
        var request = RestRequest(method: "GET", path: RestReading.path(of: record))
        if world.decisions.chance(50) { request.headers["If-None-Match"] = client.looks[record]?.tag }
        try world.send(request, from: client)
        return true
    }
}

/// A client without rows writes over REST: one record, or several that stand or fall together.
struct WriteOverRest: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.hasClients ? decisions.pick([20, 30, 10, 50]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let client = world.idleClient(), let request = world.drawRestWrite(of: client) else { return false }
        try world.send(request, from: client)
        return true
    }
}

/// A client without rows goes on with its copy: the next page of a list, or of the feed after it.
struct FollowOverRest: Action {
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int {
        profile.hasClients ? decisions.pick([8, 8, 2, 20]) : 0
    }

    func perform(in world: World) throws -> Bool {
        guard let client = world.idleClient() else { return false }
        if client.mirror.revision != nil, world.decisions.chance(10) { client.mirror = Mirror() }
        let limit = world.decisions.pick([100, 1, 3])
        try world.send(client.mirror.request(limit: limit), from: client, isForMirror: true)
        return true
    }
}

extension World {
    /// A client that waits for no answer.
    func idleClient() -> RestClient? {
        let idle = clients.filter { $0.exchange == nil }
        return idle.isEmpty ? nil : idle[decisions.decide(idle.count)]
    }
}
