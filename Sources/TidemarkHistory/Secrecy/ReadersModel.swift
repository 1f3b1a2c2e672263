/// Who may read what, by the rules of the product and none of its code.
///
/// Zones and people are numbers here, in the order in which they appeared.
package struct ReadersModel: Sendable {
    /// The rights of a member, weakest first.
    package enum Right: Int, Comparable, Sendable {
        case reader, writer, owner

        /// Whether a right is weaker than another one.
        package static func < (one: Right, other: Right) -> Bool { one.rawValue < other.rawValue }
    }

    /// The people who may read a text.
    package enum Audience: Hashable, Sendable {
        /// The present readers of a zone.
        case readers(zone: Int)
        /// The present members of a zone, who see its title in lists.
        case members(zone: Int)
        /// The same, also after the zone was deleted: they read its name in their account.
        case named(zone: Int)
        /// One person.
        case person(Int)
        /// Everybody who shares a zone with a person.
        case companions(Int)
        /// Nobody.
        case nobody
    }

    /// The sender of a request, as far as reading goes.
    package enum Reader: Hashable, Sendable {
        case person(Int)
        /// A sender without a token.
        case anonymous
        /// A sender whom the server must refuse everywhere, for instance with a dead token.
        case stranger
    }

    /// A zone.
    package struct Zone: Sendable {
        /// The rights of its members.
        package internal(set) var rights: [Int: Right] = [:]
        /// The people who were members once.
        package internal(set) var former: Set<Int> = []
        /// Whether it was deleted.
        package internal(set) var isDeleted = false
        /// Whether members can be invited, changed and removed.
        package let isShared: Bool
        /// The right that everybody has who is signed in.
        package let ofEverybody: Right?
        /// Whether senders without a token may read it.
        package let isOpenToAnonymous: Bool
    }

    /// An invitation to a zone.
    package struct Invitation: Sendable {
        /// The zone.
        package let zone: Int
        /// The right of those who accept it.
        package let right: Right
        /// How many more people may accept it.
        package internal(set) var uses: Int
        /// When it ends, in milliseconds since 1970.
        package let expires: Int64
        /// Whether an owner has ended it.
        package internal(set) var isRevoked = false
    }

    /// All zones.
    package private(set) var zones: [Zone] = []
    /// All invitations.
    package private(set) var invitations: [Invitation] = []

    /// Makes a model without zones.
    package init() {}

    // MARK: Questions

    /// Returns the right of a person in a zone; nil for none.
    package func right(of person: Int, in zone: Int) -> Right? {
        guard !zones[zone].isDeleted else { return nil }
        return [zones[zone].rights[person], zones[zone].ofEverybody].compactMap(\.self).max()
    }

    /// Whether a sender may read a zone now.
    package func mayRead(_ reader: Reader, _ zone: Int) -> Bool {
        switch reader {
        case .person(let person): right(of: person, in: zone) != nil
        case .anonymous: zones[zone].isOpenToAnonymous && !zones[zone].isDeleted
        case .stranger: false
        }
    }

    /// Returns all audiences that a sender belongs to now.
    package func audiences(of reader: Reader) -> Set<Audience> {
        var audiences = Set(zones.indices.filter { mayRead(reader, $0) }.map { Audience.readers(zone: $0) })
        guard case .person(let person) = reader else { return audiences }
        audiences.formUnion([.person(person), .companions(person)])
        for (index, zone) in zones.enumerated() where zone.rights[person] != nil {
            audiences.insert(.named(zone: index))
            guard !zone.isDeleted else { continue }
            audiences.insert(.members(zone: index))
            for companion in zone.rights.keys { audiences.insert(.companions(companion)) }
        }
        return audiences
    }

    /// Whether a person is the only owner of a zone, and so can neither leave nor become less.
    package func isLastOwner(_ person: Int, of zone: Int) -> Bool {
        zones[zone].rights.filter { $0.value == .owner }.keys.elementsEqual([person])
    }

    // MARK: Changes

    /// Adds a zone with one owner, and returns its number.
    @discardableResult package mutating func makeZone(
        owner: Int, isShared: Bool, ofEverybody: Right? = nil, isOpenToAnonymous: Bool = false
    ) -> Int {
        zones.append(
            Zone(
                rights: [owner: .owner], isShared: isShared, ofEverybody: ofEverybody,
                isOpenToAnonymous: isOpenToAnonymous))
        return zones.count - 1
    }

    /// Deletes a zone.
    package mutating func delete(_ zone: Int) { zones[zone].isDeleted = true }

    /// Changes the right of a person in a zone; nil ends the membership.
    package mutating func set(_ right: Right?, of person: Int, in zone: Int) {
        if right == nil, zones[zone].rights[person] != nil { zones[zone].former.insert(person) }
        zones[zone].rights[person] = right
    }

    /// Adds an invitation, and returns its number.
    package mutating func invite(to zone: Int, as right: Right, uses: Int, until expires: Int64) -> Int {
        invitations.append(Invitation(zone: zone, right: right, uses: uses, expires: expires))
        return invitations.count - 1
    }

    /// Ends an invitation.
    package mutating func revoke(invitation: Int) { invitations[invitation].isRevoked = true }

    /// Makes a person a member by an invitation, and returns whether it is still good.
    package mutating func accept(_ number: Int, by person: Int, at now: Int64) -> Bool {
        let invitation = invitations[number]
        guard !invitation.isRevoked, invitation.expires > now, !zones[invitation.zone].isDeleted else { return false }
        let current = zones[invitation.zone].rights[person]
        if let current, current >= invitation.right || invitation.uses == 0 { return true }
        guard invitation.uses > 0 else { return false }
        invitations[number].uses -= 1
        zones[invitation.zone].rights[person] = invitation.right
        return true
    }
}
