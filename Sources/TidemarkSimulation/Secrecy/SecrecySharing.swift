internal import Foundation
import TidemarkHistory
internal import TidemarkTestSupport

/// Zones, members and invitations.
extension SecrecyWorld {
    /// Makes a shared zone with a canary in its title.
    func makeZone(_ person: Int) async throws {
        let title = random.canary()
        let body = #"{"kind":"shared","title":"⟦\#(title)⟧","request":"\#(random.uuid())"}"#
        try await ask(sender(person), "POST /zones", body: body, isDue: true) { reply in
            guard let name = reply.object["zone"] as? String else { return }
            let zone = checker.model.makeZone(owner: person, isShared: true)
            add(name, zone)
            checker.know(title, for: .members(zone: zone))
        }
    }

    /// Writes into the person's private zone, which the first request makes.
    func usePrivateZone(_ person: Int) async throws {
        try await ask(sender(person), "GET /zones/~/schema", isDue: true) { reply in
            guard let name = reply.object["zone"] as? String, !zones.contains(where: { $0.name == name }) else {
                return
            }
            add(name, checker.model.makeZone(owner: person, isShared: false))
        }
    }

    private func add(_ name: String, _ zone: Int) {
        zones.append(SecrecyZone(name: name, isHidden: random.isHidden))
        knowName(name, for: .named(zone: zone))
    }

    /// Lists everything that a person can list.
    func look(_ sender: SecrecySender, _ zone: Int) async throws {
        let isUser = if case .person = sender.reader { true } else { false }
        try await ask(sender, "GET /zones", isDue: isUser)
        try await ask(sender, "GET /zones?kind=shared", isDue: isUser)
        try await ask(sender, "GET /me", isDue: isUser)
        let isDue = checker.model.mayRead(sender.reader, zone) ? nil : false
        try await ask(sender, "GET \(path(zone))/members", isDue: isDue)
        try await ask(sender, "GET \(path(zone))/invitations", isDue: isDue)
    }

    // MARK: Members

    /// Whether a person owns a shared zone, and so decides about its members.
    private func decides(_ person: Int, about zone: Int) -> Bool {
        checker.model.zones[zone].isShared && checker.model.right(of: person, in: zone) == .owner
    }

    /// Changes the right of a member in a zone, takes a part of it, or hands the zone over.
    func setRole(_ person: Int, _ zone: Int) async throws {
        let rights: [ReadersModel.Right] = [.reader, .writer, .owner]
        guard let other = random.pick(actors), let right = random.pick(rights) else { return }
        let isLast = checker.model.isLastOwner(other, of: zone) && right != .owner
        // Anybody else becomes a member by an invitation only.
        let isMember = checker.model.zones[zone].rights[other] != nil
        let isDue = decides(person, about: zone) && isMember && !isLast
        let user = Self.encoded(people[other].user)
        let body = #"{"role":"\#(right)"}"#
        try await ask(sender(person), "PUT \(path(zone))/members/\(user)", body: body, isDue: isDue) { reply in
            if reply.status < 300 { checker.model.set(right, of: other, in: zone) }
        }
    }

    /// Removes a member, or leaves.
    func remove(_ person: Int, _ zone: Int, other: Int) async throws {
        let isMember = checker.model.zones[zone].rights[other] != nil
        let isOwn = person == other && checker.model.right(of: person, in: zone) != nil
        let isLast = checker.model.isLastOwner(other, of: zone)
        let isDue = checker.model.zones[zone].isShared && (isOwn || decides(person, about: zone)) && !isLast
        let user = isOwn ? "me" : Self.encoded(people[other].user)
        try await ask(sender(person), "DELETE \(path(zone))/members/\(user)", isDue: isDue) { reply in
            if reply.status < 300, isMember { checker.model.set(nil, of: other, in: zone) }
        }
    }

    /// Renames a zone.
    func retitle(_ person: Int, _ zone: Int) async throws {
        let title = random.canary()
        checker.know(title, for: .person(person))
        let body = #"{"title":"⟦\#(title)⟧"}"#
        let isDue = decides(person, about: zone) ? true : checker.model.zones[zone].isShared ? false : nil
        try await ask(sender(person), "PATCH \(path(zone))", body: body, isDue: isDue) { reply in
            if reply.status < 300 { checker.know(title, for: .members(zone: zone)) }
        }
    }

    /// Deletes a zone.
    func delete(_ person: Int, _ zone: Int) async throws {
        guard checker.model.zones[zone].isShared || checker.model.right(of: person, in: zone) != .owner else { return }
        try await ask(sender(person), "DELETE \(path(zone))", isDue: decides(person, about: zone)) { reply in
            if reply.status < 300 { checker.model.delete(zone) }
        }
    }

    // MARK: Invitations

    /// Makes an invitation, and ends an earlier one sometimes.
    func invite(_ person: Int, _ zone: Int) async throws {
        guard let right = random.pick([.reader, .writer] as [ReadersModel.Right]) else { return }
        let uses = 1 + random.draw(2)
        let body = #"{"role":"\#(right)","uses":\#(uses),"days":1}"#
        let isDue = decides(person, about: zone)
        try await ask(sender(person), "POST \(path(zone))/invitations", body: body, isDue: isDue) { reply in
            guard reply.status < 300, let secret = reply.object["invitation"] as? String else { return }
            checker.know(secret, for: .person(person))
            let end = server.bench.now + 86_400_000
            let number = checker.model.invite(to: zone, as: right, uses: uses, until: end)
            invitations.append(SecrecyInvitation(secret: secret, number: number, zone: zone))
        }
        guard random.draw(3) == 0, let invitation = random.pick(knownInvitations) else { return }
        let id = invitation.secret.split(separator: "_")[1]
        let isOwner = decides(person, about: invitation.zone)
        let address = "\(path(invitation.zone))/invitations/\(id)"
        try await ask(sender(person), "DELETE \(address)", isDue: isOwner) { reply in
            if reply.status < 300 { checker.model.revoke(invitation: invitation.number) }
        }
    }

    /// The invitations that people of the present stream of choices know.
    var knownInvitations: [SecrecyInvitation] { invitations.filter { zones[$0.zone].isHidden == random.isHidden } }

    /// Accepts an invitation: a good one, or one that is used up, ended, too late or made up.
    func accept(_ person: Int) async throws {
        guard random.draw(8) != 0, let invitation = random.pick(knownInvitations) else {
            let secret = "tmi_23456789_" + String(repeating: "z", count: 52)
            try await ask(sender(person), "POST /invitations", body: #"{"invitation":"\#(secret)"}"#, isDue: false)
            return
        }
        // The secret came to the person by another way than the server.
        let isGood = checker.model.accept(invitation.number, by: person, at: server.bench.now)
        try await ask(
            sender(person), "POST /invitations", body: #"{"invitation":"\#(invitation.secret)"}"#, isDue: isGood)
        // What a person can do after a refusal.
        try await snapshot(sender(person), invitation.zone)
    }
}
