internal import Foundation
import TidemarkHistory
internal import TidemarkTestSupport

/// Senders without a right: dead and foreign tokens, guessed names, bad bodies, and what everybody may ask.
extension SecrecyWorld {
    /// Renews a device's token; the old one is dead as soon as the new one was shown.
    ///
    /// The clock, which everybody sees, is not the hidden people's to move.
    func rotate(_ person: Int) async throws {
        guard !random.isHidden else { return }
        let device = random.draw(people[person].devices.count)
        let old = people[person].devices[device]
        let body = #"{"device":"\#(old.id)"}"#
        let sender = sender(person, device)
        try await ask(sender, "POST /token", body: body, isDue: true) { reply in
            guard let token = reply.object["token"] as? String else { return }
            checker.know(token, for: .person(person))
            people[person].devices[device].token = token
        }
        try await ask(self.sender(person, device), "GET /me", isDue: true)
        // However long a server accepts the old token beside the new one, it is over by then.
        server.bench.advance(by: 3_600_000)
        people[person].devices[device].deadTokens.append(old.token)
        // A copy of the old token must bring nothing, and its use ends all tokens of the chain.
        guard random.draw(2) == 0 else { return }
        try await probeDead(person, old.token)
        try await signIn(person, device)
    }

    /// Signs a device out, uses its dead token, and signs it in again.
    func signOut(_ person: Int) async throws {
        let device = random.draw(people[person].devices.count)
        let token = people[person].devices[device].token
        try await ask(sender(person, device), "DELETE /token", isDue: true)
        people[person].devices[device].deadTokens.append(token)
        try await probeDead(person, token)
        try await signIn(person, device)
    }

    private func probeDead(_ person: Int, _ token: String) async throws {
        let dead = SecrecySender(reader: .stranger, token: token)
        let zone = places.last { checker.model.right(of: person, in: $0) != nil }
        for path in ["/zones", "/me"] + (zone.map { ["\(path($0))/snapshot", "\(path($0))/members"] } ?? []) {
            try await ask(dead, "GET \(path)", isDue: false)
        }
    }

    private func signIn(_ person: Int, _ device: Int) async throws {
        let id = people[person].devices[device].id
        let token = try await server.bench.device(id, of: people[person].user)
        checker.know(token, for: .person(person))
        people[person].devices[device].token = token
    }

    /// Asks for a zone by its name, and for one that does not exist: both answers must be the same.
    func guess(_ person: Int, _ zone: Int) async throws {
        // Members learn that their zone was deleted, and former members that they were removed.
        let model = checker.model.zones[zone]
        guard zone != Self.main, model.rights[person] == nil, !model.former.contains(person) else { return }
        let name = zones[zone].name
        let absent = "z_" + String(repeating: "a2", count: 13)
        for (method, rest) in [
            ("GET", "/snapshot"), ("GET", "/members"), ("DELETE", ""), ("GET", "/events"), ("POST", "/sync"),
            ("HEAD", "/digest"), ("POST", "/invitations"), ("PUT", "/members/me"), ("GET", "/nothing"),
        ] {
            var answers: [String] = []
            for zone in [name, absent] {
                let moment = checker.begin(.person(person))
                let body = method == "POST" ? #"{"maxRevision":0}"# : nil
                let path = "/zones/\(zone)\(rest)"
                let reply = try await ask(
                    sender(person), "\(method) \(path)", headers: [("Accept-Encoding", "identity")], body: body,
                    isDue: false)
                answers.append(SecrecyMask.text(of: reply, to: "").replacing(zone, with: "NAME"))
                guard let first = answers.first, answers.count == 2 else { continue }
                checker.expect(
                    first == answers[1], since: moment, "\(method) \(path)",
                    expected: "the answer for a zone that is there: \(first)", found: answers[1])
            }
        }
    }

    /// Asks without a token, and with another purpose's.
    func intrude(_ zone: Int) async throws {
        let isOpen = checker.model.mayRead(.anonymous, zone)
        let senders = [
            SecrecySender.anonymous, SecrecySender(reader: .stranger, token: "nonsense"),
            SecrecySender(reader: .stranger, token: "tmd_23456789_" + String(repeating: "z", count: 52)),
            SecrecySender(reader: .stranger, token: knownInvitations.last?.secret),
        ]
        for sender in senders where sender.token != nil || sender.reader == .anonymous {
            let isDue: Bool? = isOpen && sender.reader == .anonymous ? nil : false
            for rest in ["/snapshot", "/schema", "/digest"] {
                try await ask(sender, "GET \(path(zone) + rest)", isDue: isDue)
            }
            try await ask(sender, "POST \(path(zone))/sync", body: #"{"maxRevision":0}"#, isDue: isDue)
            for path in ["/zones", "/me", "/metrics"] { try await ask(sender, "GET \(path)", isDue: false) }
        }
    }

    /// Sends bodies that mean nothing.
    func babble(_ person: Int, _ zone: Int) async throws {
        let bodies = [
            "", "{", "[]", #"{"maxRevision":"x"}"#, #"{"maxRevision":0,"changeSets":[{"secret":{"create":[1]}}]}"#,
            #"{"maxRevision":0,"changeSets":[{"note":{"update":[1],"attributes":{"1":{"nothing":1}}}}]}"#,
            #"{"maxRevision":99999999}"#, #"{"maxRevision":0,"epoch":"00000000-0000-4000-8000-000000000000"}"#,
        ]
        for path in ["sync", "fingerprints", "invitations"] {
            guard let body = random.pick(bodies) else { continue }
            let isDue = checker.model.mayRead(.person(person), zone) ? nil : false
            try await ask(sender(person), "POST \(self.path(zone))/\(path)", body: body, isDue: isDue)
        }
    }

    /// Reads the pages about the server: they name no zone, no person and no value.
    func watch(_ person: Int) async throws {
        for (sender, path, isDue) in [
            (SecrecySender.anonymous, "/healthz", true), (.anonymous, "/readyz", true),
            (.anonymous, "/nothing", false), (sender(person), "/metrics", false),
        ] { try await ask(sender, "GET \(path)", isDue: isDue) }
        let metrics = try await client.send(
            "GET", "/metrics", headers: [("Authorization", "Bearer \(administrator)")], body: nil)
        if metrics.status != 200 { surprises.append("/metrics: \(metrics.status)") }
        checker.checkForAll(metrics.everything, "the metrics")
        checkLog()
    }
}
