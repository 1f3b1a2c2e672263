#if DEBUG
import GRDB
import Tidemark
import TidemarkCore
import TidemarkEngine
import TidemarkSQL

extension Scenario {
    private static let ids = ["5f0f36ab-2a2f-4a3b-8f3b-7e1d1a5cf0a1", "0c5b0c36-8f9d-4a84-b7d3-61f2b9b6d3a2"]

    private static func request(_ changeSets: String, more: String = "") -> String {
        #"{"maxRevision":1,"device":"x"\#(more),"changeSets":[\#(changeSets)]}"#
    }

    private static func rename(_ name: String, id: String = ids[0]) -> String {
        #"{"id":"\#(id)","team":{"update":[1],"attributes":{"1":{"name":"\#(name)"}}}}"#
    }

    static let reusedID = refused(
        "one id for two contents", code: .changeSetIdReused, after: [request(rename("a"))], invariant: "I6",
        body: request(rename("b")))

    static let half = refused(
        "a good change set and one that breaks a reference", code: .brokenReference, invariant: "I12", body: halfRequest
    )

    private static let halfRequest = request(
        rename("a") + #",{"id":"\#(ids[1])","player":{"create":[-1],"attributes":{"-1":{"team_id":99}}}}"#)

    /// Runs the same while another device's request shares the transaction.
    static let halfInGroup = Scenario(name: "a refused request in a group") { world in
        let before = try (world.server.revision(), world.server.rows())
        let group = [halfRequest, #"{"maxRevision":1}"#].map {
            ZoneRequest(.sync(Array($0.utf8)), access: .local("main"))
        }
        let results = try world.server.handle(group, crash: .never)
        guard case .failure = results[0], case .success = results[1] else {
            return Finding("I12", actor: "server", detail: "answers a refused request, or refuses its neighbour")
        }
        guard try (world.server.revision(), world.server.rows()) != before else { return nil }
        return Finding("I12", actor: "server", detail: "a refused request has changed rows through its group")
    }

    static let nameTwice = refused(
        "one name twice in an object", code: .duplicateName, invariant: "I12",
        body: request(#"{"team":{"update":[1],"attributes":{"1":{"name":"a","name":"b"}}}}"#))

    static let otherEpoch = refused(
        "a device of another history", code: .epochMismatch, invariant: "I4",
        body: request(rename("a"), more: #","epoch":"00000000-0000-4000-8000-00000000000f""#))

    static let tooEarly = refused(
        "a change set before the one that it builds on", code: .predecessorMissing, invariant: "I2",
        body: request(rename("a").replacing("{\"id\"", with: "{\"after\":[\"\(ids[1])\"],\"id\"")))

    /// A device receives a change of the record after its own edit, and sends the edit.
    static let oldBase = Scenario(name: "an edit older than the device's revision") { world in
        _ = try world.server.handle(Array(request(rename("theirs")).utf8), crash: .never)
        let body = """
            {"maxRevision":2,"device":"y","changeSets":[{"id":"\(ids[1])",
            "team":{"update":[1],"attributes":{"1":{"revision":1,"name":"mine"}}}}]}
            """
        let answer = try world.server.handle(Array(body.utf8), crash: .never)
        let text = String(decoding: answer, as: UTF8.self)
        guard !text.contains(#""conflict":true"#) else { return nil }
        return Finding("I2", actor: "server", detail: "an edit made at 1 overwrites revision 2")
    }

    /// A request is lost, and the record is edited again.
    static let editedTwice = Scenario(name: "two edits of a record, the first one sent") { world in
        let device = world[1]
        try device.write { try $0.execute(sql: "UPDATE team SET name = 'a' WHERE id = 1") }
        _ = try world.nextRequest(of: device)
        try device.write { try $0.execute(sql: "UPDATE team SET name = 'b' WHERE id = 1") }
        let body = String(decoding: try world.nextRequest(of: device).body, as: UTF8.self)
        guard !body.contains(#""after":["#) else { return nil }
        return Finding("I2", actor: device.name, detail: "does not say what the second edit builds on: \(body)")
    }

    /// A team is on its way while a player is added to it.
    static let playerInFlight = Scenario(name: "a new player of a team in flight") { world in
        let device = world[1]
        try device.write { try $0.execute(sql: "INSERT INTO team (name) VALUES ('new')") }
        let outgoing = try world.nextRequest(of: device)
        let answer = try world.server.handle(outgoing.body, crash: .never)
        try device.write { try $0.execute(sql: "INSERT INTO player (team_id, name) SELECT max(id), 'new' FROM team") }
        _ = try device.step(0) { try $0.applyAnswer(answer, to: outgoing, in: $1) }
        let broken = try device.access { try Row.fetchOne($0, sql: "PRAGMA foreign_key_check") }
        let body = String(decoding: try world.nextRequest(of: device).body, as: UTF8.self)
        guard broken != nil || body.contains(#""team_id":-"#) else { return nil }
        return Finding("I8", actor: device.name, detail: "a player keeps the team's temporary id: \(body)")
    }

    /// A connection of the engine reports whether its commits reach the disk.
    static let unflushed = Scenario(name: "a commit that stays in memory") { world in
        try world.server.read { db in
            try EngineConnection.flushCommits(of: db)
            let mode = try Int.fetchOne(db, sql: "PRAGMA synchronous")
            guard let mode, mode < 2 else { return nil }
            return Finding("I1", actor: "server", detail: "answers before a commit is on the disk")
        }
    }

    /// A server answers with the revision after the next.
    static let gap = Scenario(name: "an answer with a gap") { world in
        let device = world[1]
        let outgoing = try world.nextRequest(of: device)
        let revision = outgoing.revision
        let epoch = try world.epoch()
        let answer = """
            {"maxRevision":\(revision + 2),"epoch":"\(epoch)","more":false,"changeSets":[
            {"revision":\(revision + 2),"conflict":false,"types":["team"],"team":{"update":[1],
            "attributes":{"1":{"revision":\(revision + 2),"name":"x"}}}}]}
            """
        do { _ = try device.step(0) { try $0.applyAnswer(Array(answer.utf8), to: outgoing, in: $1) } } catch let error
            as TidemarkError where error.code == .invalidResponse
        { return nil }
        return Finding("I4", actor: device.name, detail: "takes an answer without revision \(revision + 1)")
    }

    /// A snapshot contains more than data.
    static let activeSnapshot = Scenario(name: "a snapshot with a trigger") { world in
        let device = world[1]
        let keeper = try world.storage.open("hostile")
        try world.server.snapshot(to: world.storage.path(of: "hostile"))
        try keeper.writeWithoutTransaction { db in try db.execute(sql: "CREATE VIEW spy AS SELECT * FROM team") }
        defer { withExtendedLifetime(keeper) {} }
        device.startRound(0)
        do { _ = try device.step(0) { try $0.applySnapshot(at: world.storage.path(of: "hostile"), in: $1) } } catch let
            error as TidemarkError where error.code == .invalidResponse
        { return nil }
        return Finding("I12", actor: device.name, detail: "takes a snapshot that has a view")
    }

    /// A device with an edit takes a snapshot.
    static let snapshotOverEdit = Scenario(name: "a snapshot while an edit waits") { world in
        let device = world[1]
        try device.write { try $0.execute(sql: "UPDATE team SET name = 'mine' WHERE id = 1") }
        device.startRound(0)
        try world.takeSnapshot(device)
        guard try device.queueCounts().waiting == 0 else { return nil }
        return Finding("I9", actor: device.name, detail: "a snapshot has dropped the outbox")
    }

    /// A server is put back to a backup from before a new record, and then to one that has it.
    static let offeredTwice = Scenario(name: "a server put back to two backups") { world in
        let device = world[1]
        let early = try world.copyOfZone("early")
        try device.write("INSERT INTO team (name) VALUES ('mine')")
        try world.sync(device)
        let late = try world.copyOfZone("late")
        for (copy, place) in [(early, 1), (late, 2)] {
            let epoch = "00000000-0000-4000-8002-00000000000\(place)"
            try world.server.putBack(copy, policies: world.plan.policies, epoch: epoch)
            try world.sync(device)
        }
        try world.sync(device)
        let count = try world.server.read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM team WHERE name = 'mine'") ?? 0
        }
        guard count != 1 else { return nil }
        return Finding("I6", actor: device.name, detail: "the server has one new team \(count) times")
    }

    /// A member is removed while an edit waits.
    static let revoked = Scenario(name: "a membership that ends while an edit waits") { world in
        let device = world[1]
        try device.write { try $0.execute(sql: "UPDATE team SET name = 'mine' WHERE id = 1") }
        let outgoing = try world.nextRequest(of: device)
        let refusal = TidemarkError(.accessRevoked, "You are no longer a member.", fix: "Ask an owner.")
        _ = try device.step(0) { try $0.handle(refusal, during: .send(outgoing), in: $1) }
        let counts = try device.queueCounts()
        guard counts.waiting + counts.conflicts == 0 else { return nil }
        return Finding("I9", actor: device.name, detail: "the end of the membership has dropped the outbox")
    }

    /// A row of a device changes without a trigger.
    static let corrupted = Scenario(name: "a row that rots") { world in
        let device = world[1]
        try device.write {
            try $0.execute(
                sql: """
                    UPDATE tidemark_state SET applying = 1; UPDATE team SET name = 'rot' WHERE id = 1;
                    UPDATE tidemark_state SET applying = 0
                    """)
        }
        do {
            let body = try world.nextRequest(of: device).body
            _ = try world.server.handle(body, crash: .never)
        } catch let error as TidemarkError where error.code == .fingerprintMismatch { return nil }
        return Finding("rule 17", actor: device.name, detail: "syncs with a row that is not the server's")
    }

    /// A device with wrong rows at the zone's revision sends a short question.
    static let otherTag = Scenario(name: "a short question about other rows") { world in
        let device = world[1]
        let outgoing = try world.nextRequest(of: device)
        guard let short = outgoing.conditionalGet else {
            throw Finding("live", actor: device.name, detail: "does not ask in short")
        }
        // Now the server knows the fingerprint of its rows.
        _ = try world.server.handle(outgoing.body, crash: .never)
        let others = DeviceCore.ConditionalGet(
            device: short.device, tag: ZoneTag(revision: short.tag.revision, hash: String(short.tag.hash.reversed())),
            nothingNew: short.nothingNew)
        let request = ZoneRequest(.sync(outgoing.body), access: .local("main"))
        let answers = try world.server.handle([request], shorts: [others], crash: .never)
        guard case .success = answers[0] else { return nil }
        return Finding("rule 17", actor: "server", detail: "takes another tag for that of its rows")
    }

    /// A server that has lost most of its rows answers as if they had been deleted.
    static let emptied = Scenario(name: "an answer that deletes nearly everything") { world in
        let device = world[1]
        try device.write {
            for name in 1...80 { try $0.execute(sql: "INSERT INTO team (name) VALUES (?)", arguments: ["t\(name)"]) }
        }
        let first = try world.nextRequest(of: device)
        let answer = try world.server.handle(first.body, crash: .never)
        _ = try device.step(0) { try $0.applyAnswer(answer, to: first, in: $1) }
        let before = try device.teams()
        let outgoing = try world.nextRequest(of: device)
        let next = outgoing.revision + 1
        let epoch = try world.epoch()
        let hostile = """
            {"maxRevision":\(next),"epoch":"\(epoch)","more":false,"changeSets":[
            {"revision":\(next),"conflict":false,"types":["team"],"team":{"create":[],"update":[],
            "delete":[\(before.suffix(70).map(String.init).joined(separator: ","))],"attributes":{}}}]}
            """
        _ = try device.step(0) { try $0.applyAnswer(Array(hostile.utf8), to: outgoing, in: $1) }
        guard try device.teams() != before else { return nil }
        return Finding("rule 19", actor: device.name, detail: "an answer has deleted most rows unasked")
    }
}

extension SimulatedDevice {
    fileprivate func teams() throws -> [Int64] {
        try access { try Int64.fetchAll($0, sql: "SELECT id FROM team ORDER BY id") }
    }
}

extension World {
    fileprivate func epoch() throws -> String {
        try server.read { try String.fetchOne($0, sql: "SELECT epoch FROM tidemark_zone") ?? "" }
    }

    /// A copy of the server's file.
    fileprivate func copyOfZone(_ name: String) throws -> DatabaseQueue {
        let file = try storage.open(name)
        try server.database.backup(to: file)
        return file
    }

    /// The first request of a device's sync.
    func nextRequest(of device: SimulatedDevice) throws -> DeviceCore.Outgoing {
        device.startRound(0)
        guard case .send(let outgoing)? = try device.step(0, { try $0.next($1) }) else {
            throw Finding("live", actor: device.name, detail: "sends nothing")
        }
        return outgoing
    }

    /// Takes the zone's rows again.
    func takeSnapshot(_ device: SimulatedDevice) throws {
        let keeper = try storage.open("snapshot")
        try server.snapshot(to: storage.path(of: "snapshot"))
        _ = try device.step(0) { try $0.applySnapshot(at: storage.path(of: "snapshot"), in: $1) }
        try keeper.close()
        try storage.remove("snapshot")
    }
}
#endif
