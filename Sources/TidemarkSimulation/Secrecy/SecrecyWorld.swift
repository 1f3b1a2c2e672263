internal import Foundation
internal import TidemarkCore
internal import TidemarkEngine
import TidemarkHistory
internal import TidemarkTestSupport

/// The people, devices and zones of one run against a real server, and the checker of all its bytes.
final class SecrecyWorld {
    let server: ServedStage
    let client: SecrecyClient
    let random: SecrecyRandom
    /// Whether the server assigns keys to new records.
    let assignsKeys: Bool
    var checker = SecrecyChecker()
    var people: [SecrecyPerson] = []
    var zones: [SecrecyZone] = []
    var invitations: [SecrecyInvitation] = []
    /// The token of an administrator.
    private(set) var administrator = ""
    /// What reached everybody but the people of the hidden zone, in the order of the requests.
    private(set) var transcript: [String] = []
    /// Where the server refuses what the model allows: the campaign would prove nothing.
    var surprises: [String] = []
    /// What a log may name: zones, users and devices.
    private var namesInLogs: Set<String> = []
    /// The last temporary id of each stream of choices.
    private var temporaryIDs: [Bool: Int64] = [:]

    /// The zone that the operator serves.
    static let main = 0

    init(_ server: ServedStage, random: SecrecyRandom, assignsKeys: Bool) {
        self.assignsKeys = assignsKeys
        self.server = server
        self.random = random
        client = SecrecyClient(port: server.port)
    }

    // MARK: Beginning

    /// Signs the people in, and opens the main zone to some.
    func begin(people count: Int, hidden: Int) async throws {
        let isOpen = random.draw(4)
        let everybody: (role: Role, right: ReadersModel.Right)? = isOpen == 1 ? (.reader, .reader) : nil
        var policy = AccessPolicy.ownUsers
        policy.zones["main"] = .init(everybody: everybody?.role, isOpenToAnonymous: isOpen == 2)
        server.bench.gate.follow(policy)
        for number in 0..<(count + hidden) {
            random.isHidden = number >= count
            try await addPerson(isHidden: random.isHidden)
        }
        random.isHidden = false
        checker.model.makeZone(
            owner: 0, isShared: false, ofEverybody: everybody?.right ?? (isOpen == 2 ? .reader : nil),
            isOpenToAnonymous: isOpen == 2)
        zones.append(SecrecyZone(name: "main", isHidden: false))
        try await server.bench.members { [user = people[0].user] in try $0.set(.owner, of: user, in: "main") }
        for person in 1..<count where random.draw(2) == 0 {
            try await operate(random.draw(2) == 0 ? .reader : .writer, of: person)
        }
        administrator = try await server.bench.issue(.administrator, to: people[0].user)
        checker.know(administrator, for: .person(0))
    }

    private func addPerson(isHidden: Bool) async throws {
        let number = people.count
        let canary = random.canary()
        knowName(canary, for: .companions(number))
        people.append(SecrecyPerson(user: "⟦u\(number):\(canary)⟧", isHidden: isHidden))
        try await server.bench.members { [user = people[number].user] in try $0.add(user) }
        for _ in 0...random.draw(2) {
            let canary = random.canary()
            knowName(canary, for: .person(number))
            let device = "⟦d\(number):\(canary)⟧"
            let token = try await server.bench.device(device, of: people[number].user)
            checker.know(token, for: .person(number))
            people[number].devices.append(SecrecyDevice(id: device, token: token))
        }
    }

    /// Changes a person's rights in the main zone, as the operator does.
    func operate(_ right: ReadersModel.Right?, of person: Int) async throws {
        let role = right.map(Self.role)
        try await server.bench.members { [user = people[person].user] in try $0.set(role, of: user, in: "main") }
        checker.model.set(right, of: person, in: Self.main)
    }

    /// The server's word for a right.
    static func role(_ right: ReadersModel.Right) -> Role {
        switch right {
        case .reader: .reader
        case .writer: .writer
        case .owner: .owner
        }
    }

    // MARK: Requests

    /// The people who act in the present stream of choices.
    var actors: [Int] { people.indices.filter { people[$0].isHidden == random.isHidden } }

    /// The zones of the present stream of choices.
    var places: [Int] { zones.indices.filter { zones[$0].isHidden == random.isHidden } }

    /// The path of a zone.
    func path(_ zone: Int) -> String { "/zones/\(zones[zone].name)" }

    /// A person with one of the person's devices.
    func sender(_ person: Int, _ device: Int = 0) -> SecrecySender {
        SecrecySender(reader: .person(person), token: people[person].devices[device].token)
    }

    /// Sends a request, and checks every byte of the answer.
    ///
    /// - Parameters:
    ///   - sender: The sender with the token.
    ///   - request: The method and the path, such as `GET /zones`.
    ///   - headers: More headers.
    ///   - body: The body; nil for none.
    ///   - isDue: Whether the model allows the request; nil if it does not decide. A refused one must fail.
    ///   - effect: Takes the answer into the model, before the checker searches its bytes.
    /// - Returns: The answer.
    /// - Throws: An error of the connection.
    @discardableResult func ask(
        _ sender: SecrecySender, _ request: String, headers: [(String, String)] = [], body: String? = nil,
        isDue: Bool? = nil, effect: (SecrecyReply) throws -> Void = { _ in }
    ) async throws -> SecrecyReply {
        let moment = checker.begin(sender.reader)
        let what = "\(request) \(body?.prefix(200) ?? "")"
        let parts = request.split(separator: " ").map(String.init)
        let own =
            (sender.token.map { [("Authorization", "Bearer \($0)")] } ?? [])
            + (headers.isEmpty && random.draw(2) == 0 ? [("Accept-Encoding", "gzip")] : [])
        let reply = try await client.send(parts[0], parts[1], headers: headers + own, body: body)
        try effect(reply)
        let ownTexts = [parts[1].removingPercentEncoding ?? parts[1], body ?? ""] + headers.map(\.1)
        checker.check(
            reply.everything, since: moment,
            known: SecretFinder.candidates(in: Array(ownTexts.joined(separator: "\n").utf8)), what)
        if isDue == false {
            checker.expect(
                reply.status >= 400, since: moment, what, expected: "a refusal",
                found: "\(reply.status) \(reply.text.prefix(200))")
        } else if isDue == true, reply.status >= 400 {
            surprises.append("\(sender.reader) \(what): \(reply.status) \(reply.text.prefix(300))")
        }
        if !random.isHidden { transcript.append(SecrecyMask.text(of: reply, to: "\(sender.reader) \(what)")) }
        return reply
    }

    /// Adds lines to what reached everybody but the people of the hidden zone.
    func record(_ lines: [String]) { if !random.isHidden { transcript += lines.map(SecrecyMask.text) } }

    /// Searches the server's log so far, which names zones, users and devices but no values and no secrets.
    func checkLog() { checker.checkForAll(server.log.take(), known: namesInLogs, "the log") }

    /// Tells who may read a name that a log may have, too.
    func knowName(_ name: String, for audience: ReadersModel.Audience) {
        checker.know(name, for: audience)
        namesInLogs.insert(name)
    }

    // MARK: Texts

    /// Returns a value with the zone's name and a canary that only its author may read until it is accepted.
    func value(by person: Int, in zone: Int) -> (text: String, canary: String) {
        let canary = random.canary()
        checker.know(canary, for: .person(person))
        return ("⟦\(zones[zone].name):\(canary)⟧", canary)
    }

    /// Returns a temporary id.
    func newTemporaryID() -> Int64 {
        let next = temporaryIDs[random.isHidden, default: 0] - 1
        temporaryIDs[random.isHidden] = next
        return next
    }

    /// Percent-encodes a name for a path or query.
    static func encoded(_ name: String) -> String {
        name.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? name
    }
}
