internal import Foundation
internal import TidemarkCore
import TidemarkHistory
internal import TidemarkSQL

/// Rows: pushes, pulls, verdicts, snapshots, digests and fingerprints.
extension SecrecyWorld {
    /// Whether a person may send a device's id in a zone: it is the person's, or nobody's yet.
    private func owns(_ device: String, _ person: Int, in zone: Int) -> Bool {
        zones[zone].deviceOwners[device, default: person] == person
    }

    /// Sends a request to `/sync` with a device's id, and learns from the answer.
    @discardableResult private func sync(
        _ sender: SecrecySender, _ zone: Int, device: String?, members: String,
        effect: (SecrecyReply) -> Void = { _ in }
    ) async throws -> SecrecyReply {
        var isDue = checker.model.mayRead(sender.reader, zone)
        if case .person(let person) = sender.reader, let device { isDue = isDue && owns(device, person, in: zone) }
        let name = device.map { #""device":"\#($0)","# } ?? ""
        return try await ask(sender, "POST \(path(zone))/sync", body: "{\(name)\(members)}", isDue: isDue ? nil : false)
        { reply in
            guard reply.status == 200 else { return }
            // A request without change sets may bind the device to nobody yet.
            if case .person(let person) = sender.reader, let device, members.contains("changeSets") {
                zones[zone].deviceOwners[device] = person
            }
            learn(reply, about: zone)
            effect(reply)
        }
    }

    /// Takes the zone's state from an answer.
    private func learn(_ reply: SecrecyReply, about zone: Int) {
        let object = reply.object
        if let epoch = object["epoch"] as? String {
            zones[zone].epoch = epoch
            checker.know(epoch, for: .readers(zone: zone))
        }
        guard let revision = object["maxRevision"] as? Int64, object["more"] as? Bool != true else { return }
        zones[zone].revision = max(zones[zone].revision, revision)
        if let schema = object["schema"] as? String, let fingerprint = object["fingerprint"] as? String {
            zones[zone].state = (schema, fingerprint)
        }
    }

    // MARK: Pushes

    /// Sends a change set with canaries in every value; the server refuses or overrules some.
    func push(_ person: Int, _ zone: Int) async throws {
        guard let device = random.pick(people[person].devices) else { return }
        let id = random.uuid()
        var canaries: [String] = []
        let part = part(by: person, in: zone, &canaries)
        // A request from the beginning brings all rows back.
        let revision = random.draw(3) == 0 ? 0 : zones[zone].revision
        zones[zone].sets.append((id, person))
        try await sync(
            SecrecySender(reader: .person(person), token: device.token), zone, device: device.id,
            members: #""maxRevision":\#(revision),"changeSets":[{"id":"\#(id)",\#(part)}]"#
        ) { reply in take(reply, id: id, canaries, in: zone) }
    }

    /// Tells the model which values of a change set everybody in the zone may read now.
    private func take(_ reply: SecrecyReply, id: String, _ canaries: [String], in zone: Int) {
        guard let own = reply.list("changeSets").first(where: { $0["id"] as? String == id }),
            own["conflict"] as? Bool == false
        else { return }
        let lost = own["overruled"].map { "\($0)" } ?? ""
        for canary in canaries where !lost.contains(canary) { checker.know(canary, for: .readers(zone: zone)) }
        for table in ["note", "mark"] {
            let attributes = (own[table] as? [String: Any])?["attributes"] as? [String: [String: Any]] ?? [:]
            for (key, values) in attributes where values["__oldId__"] != nil {
                if let key = Int64(key) { zones[zone].keys[table, default: []].append(key) }
            }
        }
    }

    /// Returns a change set's part about one table.
    private func part(by person: Int, in zone: Int, _ canaries: inout [String]) -> String {
        func text() -> String {
            let (text, canary) = value(by: person, in: zone)
            canaries.append(canary)
            return text
        }
        let notes = zones[zone].keys["note", default: []]
        let marks = zones[zone].keys["mark", default: []]
        switch assignsKeys ? random.draw(6) : 0 {
        case 0:
            let name = text()
            return #""tag":{"create":["\#(name)"],"attributes":{"\#(name)":{"text":"\#(text())"}}}"#
        case 1:
            let id = newTemporaryID()
            return #""mark":{"create":[\#(id)],"attributes":{"\#(id)":{"text":"\#(text())"}}}"#
        case 2:
            guard let key = random.pick(marks) else { fallthrough }
            // A time of long ago: the value is accepted and does not stand.
            let time = random.draw(2) == 0 ? #""time":1600000000000000,"# : ""
            let base = random.draw(zones[zone].revision > 0 ? 2 : 1) == 0 ? #","revision":0"# : ""
            return #"\#(time)"mark":{"update":[\#(key)],"attributes":{"\#(key)":{"text":"\#(text())"\#(base)}}}"#
        case 3:
            guard let key = random.pick(notes) else { fallthrough }
            // An old base: a conflict, whose values stay its author's.
            let base = random.draw(2) == 0 ? #","revision":0"# : ""
            return #""note":{"update":[\#(key)],"attributes":{"\#(key)":{"text":"\#(text())"\#(base)}}}"#
        default:
            let id = newTemporaryID()
            let long = String(repeating: "long ", count: random.draw(4) == 0 ? 4_000 : 10)
            let picture = random.canary()
            checker.know(picture, for: .person(person))
            canaries.append(picture)
            let blob = Data("\(picture)1".utf8).base64EncodedString()
            let values = #""text":"\#(text())","long":"\#(long)\#(text())","picture":{"$blob":"\#(blob)"}"#
            return #""note":{"create":[\#(id)],"attributes":{"\#(id)":{\#(values)}}}"#
        }
    }

    // MARK: Questions

    /// Asks for the news of a zone.
    func pull(_ sender: SecrecySender, device: String?, _ zone: Int) async throws {
        let revision = random.draw(2) == 0 ? 0 : zones[zone].revision
        let notes = random.draw(2) == 0 ? #","overruled":0"# : ""
        try await sync(sender, zone, device: device, members: #""maxRevision":\#(revision)\#(notes)"#)
        if let epoch = zones[zone].epoch, let state = zones[zone].state,
            let fingerprint = Fingerprint(hex: state.fingerprint), let device
        {
            let tag = ZoneTag(
                epoch: epoch, schema: state.schema, revision: zones[zone].revision, fingerprint: fingerprint)
            try await ask(
                sender, "GET \(path(zone))/sync?device=\(Self.encoded(device))",
                headers: [("If-None-Match", tag.entityTag)],
                isDue: checker.model.mayRead(sender.reader, zone) ? nil : false)
        }
    }

    /// Asks for the verdicts of change sets, the sender's own and other people's.
    func recall(_ person: Int, _ zone: Int) async throws {
        guard let device = random.pick(people[person].devices) else { return }
        let questions = (0..<4).compactMap { _ in random.pick(zones[zone].sets) }
        let others = Set(questions.filter { $0.author != person }.map(\.id))
        let ids = questions.map { "\"\($0.id)\"" }.joined(separator: ",")
        let moment = checker.begin(.person(person))
        let sender = SecrecySender(reader: .person(person), token: device.token)
        let question = #""maxRevision":\#(zones[zone].revision),"recall":[\#(ids)],"known":[]"#
        let reply = try await sync(sender, zone, device: device.id, members: question)
        let verdicts = Set(reply.list("changeSets").compactMap { $0["id"] as? String })
        checker.expect(
            verdicts.isDisjoint(with: others), since: moment, "a recall",
            expected: "verdicts of the sender's own change sets", found: "\(verdicts.intersection(others).sorted())")
    }

    /// Sends another user's change set id with other content, and another user's device id.
    func pretend(_ person: Int, _ zone: Int) async throws {
        let sender = sender(person)
        if let foreign = random.pick(zones[zone].sets.filter { $0.author != person }) {
            var canaries: [String] = []
            let part = part(by: person, in: zone, &canaries)
            let members = #""maxRevision":0,"changeSets":[{"id":"\#(foreign.id)",\#(part)}]"#
            // An id whose first change set the server refused to read is new to it.
            try await sync(sender, zone, device: people[person].devices[0].id, members: members) { reply in
                take(reply, id: foreign.id, canaries, in: zone)
                // The server has read the set, so the id is the sender's from now on.
                zones[zone].sets.removeAll { $0.id == foreign.id }
                zones[zone].sets.append((foreign.id, person))
            }
        }
        guard let other = random.pick(actors.filter { $0 != person }), let device = random.pick(people[other].devices)
        else { return }
        // A device that the zone has not seen yet would become the sender's.
        guard zones[zone].deviceOwners[device.id] != nil else { return }
        for members in [#""maxRevision":0,"overruled":0"#, #""maxRevision":0,"recall":[],"known":[]"#] {
            try await sync(sender, zone, device: device.id, members: members)
        }
    }

    /// Compares ranges with wrong fingerprints, so that the server sends its rows; reads the schema and digest.
    func compare(_ sender: SecrecySender, _ zone: Int) async throws {
        let isDue = checker.model.mayRead(sender.reader, zone) ? nil : false
        let empty = String(repeating: "0", count: 32)
        let ranges = ["mark", "note", "tag"].map {
            #"{"table":"\#($0)","rows":0,"fingerprint":"\#(empty)","send":true}"#
        }
        let body = #"{"revision":\#(zones[zone].revision),"ranges":[\#(ranges.joined(separator: ","))]}"#
        try await ask(sender, "POST \(path(zone))/fingerprints", body: body, isDue: isDue) { learn($0, about: zone) }
        try await ask(sender, "GET \(path(zone))/schema", isDue: isDue) { learn($0, about: zone) }
        try await ask(sender, "GET \(path(zone))/digest", isDue: isDue) { learn($0, about: zone) }
    }

    // MARK: Snapshots

    /// Fetches a snapshot whole, and parts of any snapshot by its tag.
    func snapshot(_ sender: SecrecySender, _ zone: Int) async throws {
        let path = "\(path(zone))/snapshot"
        let isDue = checker.model.mayRead(sender.reader, zone) ? nil : false
        let query = random.draw(3) == 0 ? "?since=0" : ""
        try await ask(sender, "GET \(path + query)", isDue: isDue) { reply in
            guard reply.status == 200 else { return }
            if let epoch = reply.header("tidemark-epoch") {
                zones[zone].epoch = epoch
                checker.know(epoch, for: .readers(zone: zone))
            }
            if let tag = reply.header("etag") { zones[zone].tags.append(tag) }
        }
        // Most tags are of the same zone; another zone's must bring nothing.
        let other = random.draw(2) == 0 ? zone : random.pick(places) ?? zone
        guard let tag = zones[other].tags.last else { return }
        for range in ["bytes=0-", "bytes=0-99", "bytes=100-"] {
            let headers = [("Range", range), ("If-Range", tag)]
            if random.draw(2) == 0 || range == "bytes=0-" {
                try await ask(sender, "GET \(path)", headers: headers, isDue: isDue)
            }
        }
    }
}
