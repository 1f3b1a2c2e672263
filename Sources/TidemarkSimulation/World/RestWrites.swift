import TidemarkHistory

/// One write, before it becomes a request or an entry of a batch.
private struct RestWrite {
    let method: String
    let path: String
    var ifMatch: String?
    var isNew = false
    /// The columns; nil in a deletion.
    var body: [(name: String, value: String)]?

    var json: String? { body.map { body in "{\(body.map { "\"\($0.name)\":\($0.value)" }.joined(separator: ","))}" } }

    /// The write as an entry of a batch.
    var entry: String {
        var members = ["\"method\":\"\(method)\"", "\"path\":\"\(path)\""]
        if let ifMatch { members.append("\"ifMatch\":\(ValueJSON.text(Array(ifMatch.utf8)))") }
        if isNew { members.append(#""ifNoneMatch":"*""#) }
        if let json { members.append("\"body\":\(json)") }
        return "{\(members.joined(separator: ","))}"
    }
}

/// Draws what clients without rows write: with the tag of the record that they saw, and now and then with `*`.
extension World {
    /// A request to write; nil if the client has seen too little for it.
    func drawRestWrite(of client: RestClient) -> RestRequest? {
        writes += 1
        let value = "\"r\(client.number).\(writes)\""
        var request: RestRequest?
        switch drawWeighted([5, 3, 2, 2, 2, 4]) {
        case 0: request = drawChange(client, value).map(single)
        case 1: request = drawNewRecord(client, value).map(single)
        case 2: request = drawReplacement(client, value).map(single)
        case 3: request = drawNamedRecord(client, value).map(single)
        case 4: request = drawDeletion(client).map(single)
        default: request = drawBatch(client, value)
        }
        request?.headers["Idempotency-Key"] = client.newID()
        if decisions.chance(20) { request?.headers["Prefer"] = "return=minimal" }
        if let revision = client.mirror.revision, decisions.chance(30) {
            request?.headers["Tidemark-Seen"] = "\(revision)"
        }
        return request
    }

    private func single(_ write: RestWrite) -> RestRequest {
        var request = RestRequest(method: write.method, path: write.path, body: write.json)
        if let ifMatch = write.ifMatch { request.headers["If-Match"] = ifMatch }
        if write.isNew { request.headers["If-None-Match"] = "*" }
        return request
    }

    // MARK: Single writes

    private func drawChange(_ client: RestClient, _ value: String) -> RestWrite? {
        guard let record = drawKnown(client, ZoneSchema.tables.map(\.name)) else { return nil }
        return change(record, client, to: drawColumns(of: record, client, value))
    }

    private func change(_ record: RecordID, _ client: RestClient, to columns: [(name: String, value: String)])
        -> RestWrite
    {
        RestWrite(method: "PATCH", path: RestReading.path(of: record), ifMatch: drawTag(record, client), body: columns)
    }

    private func drawReplacement(_ client: RestClient, _ value: String) -> RestWrite? {
        guard let record = drawKnown(client, ZoneSchema.tables.map(\.name)), let cells = client.looks[record]?.cells
        else { return nil }
        let changed = drawColumns(of: record, client, value)
        let unchanged = cells.filter { cell in !changed.contains { $0.name == cell.key } }.sorted { $0.key < $1.key }
        return RestWrite(
            method: "PUT", path: RestReading.path(of: record), ifMatch: drawTag(record, client),
            body: unchanged.map { (name: $0.key, value: $0.value) } + changed)
    }

    private func drawDeletion(_ client: RestClient) -> RestWrite? {
        guard let record = drawKnown(client, ZoneSchema.tables.map(\.name)) else { return nil }
        return RestWrite(method: "DELETE", path: RestReading.path(of: record), ifMatch: drawTag(record, client))
    }

    /// A record whose id the server gives.
    private func drawNewRecord(_ client: RestClient, _ value: String) -> RestWrite? {
        guard decisions.chance(50), let team = drawKnown(client, ["team"]) else {
            return RestWrite(method: "POST", path: "tables/team", body: [("name", value), ("rank", drawRank())])
        }
        var body = [(name: "team_id", value: team.key), (name: "name", value: value)]
        if let captain = drawKnown(client, ["player"]), decisions.chance(30) {
            body.append(("captain_id", captain.key))
        }
        return RestWrite(method: "POST", path: "tables/player", body: body)
    }

    /// A record whose key the client makes.
    private func drawNamedRecord(_ client: RestClient, _ value: String) -> RestWrite? {
        let named = { (path: String, column: String) in
            RestWrite(method: "PUT", path: "tables/\(path)", isNew: true, body: [(column, value)])
        }
        let kind = decisions.decide(3)
        guard kind > 0 else { return named("tag/t\(decisions.decide(6))", "title") }
        guard let player = drawKnown(client, ["player"]) else { return nil }
        guard kind > 1 else { return named("contract/\(player.key)", "terms") }
        guard let tag = drawKnown(client, ["tag"]) else { return nil }
        return named("player_tag/\(player.key),\(tag.key.filter { $0 != "\"" })", "note")
    }

    // MARK: Batches

    /// A new team with a player, to which a known player moves, perhaps while another record goes.
    private func drawBatch(_ client: RestClient, _ value: String) -> RestRequest {
        var writes = [
            RestWrite(
                method: "POST", path: "tables/team", body: [("id", "-1"), ("name", value), ("rank", drawRank())]),
            RestWrite(method: "POST", path: "tables/player", body: [("id", "-2"), ("team_id", "-1"), ("name", value)]),
        ]
        if decisions.chance(40) {
            let body = [(name: "player_id", value: "-2"), (name: "terms", value: value)]
            writes.append(RestWrite(method: "POST", path: "tables/contract", body: body))
        }
        let player = drawKnown(client, ["player"])
        if let player {
            writes.append(change(player, client, to: [("team_id", "-1"), ("captain_id", "-2"), ("name", value)]))
        }
        let gone = drawKnown(client, ["player_tag", "contract", "tag", "team", "player"])
        if let gone, gone != player, decisions.chance(40) {
            let tag = drawTag(gone, client)
            writes.append(RestWrite(method: "DELETE", path: RestReading.path(of: gone), ifMatch: tag))
        }
        counters[.restBatches] += 1
        return RestRequest(
            method: "POST", path: "batch",
            body: #"{"atomic":true,"requests":[\#(writes.map(\.entry).joined(separator: ","))]}"#)
    }

    // MARK: Details

    /// A record of some tables that the client has seen: in some worlds always one of the first few.
    private func drawKnown(_ client: RestClient, _ tables: [String]) -> RecordID? {
        let known = Dictionary(grouping: client.looks.keys.filter { tables.contains($0.table) }, by: \.table)
        guard !known.isEmpty else { return nil }
        let table = decisions.pick(known.keys.sorted())
        let records = (known[table] ?? []).sorted()
        return records[decisions.decide(min(records.count, plan.spread))]
    }

    private func drawTag(_ record: RecordID, _ client: RestClient) -> String {
        decisions.chance(25) ? "*" : client.looks[record]?.tag ?? "*"
    }

    private func drawRank() -> String { decisions.chance(50) ? "\(decisions.decide(6))" : "null" }

    private func drawColumns(of record: RecordID, _ client: RestClient, _ value: String) -> [(
        name: String, value: String
    )] {
        switch record.table {
        case "team": return [("name", value)] + (decisions.chance(40) ? [("rank", drawRank())] : [])
        case "tag": return [decisions.chance(50) ? ("title", value) : ("colour", #"{"$blob":"AAEC"}"#)]
        case "player_tag": return [("note", value)]
        case "contract": return [("terms", value)]
        default: break
        }
        switch decisions.decide(4) {
        case 0: return [("name", value)]
        case 1: return [("score", "\(decisions.decide(6)).25")]
        case 2: return [("captain_id", "null"), ("name", value)]
        default: return drawKnown(client, ["team"]).map { [("team_id", $0.key)] } ?? [("name", value)]
        }
    }
}
