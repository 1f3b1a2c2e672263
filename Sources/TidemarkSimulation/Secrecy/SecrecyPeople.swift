import TidemarkHistory

/// A person of a campaign, with devices that are signed in.
struct SecrecyPerson {
    /// The user's id at the server, with a canary.
    let user: String
    /// The devices.
    var devices: [SecrecyDevice] = []
    /// Whether the person acts in the hidden zone only.
    let isHidden: Bool
}

/// A device of a person.
struct SecrecyDevice {
    /// The device's id, with a canary.
    let id: String
    /// The present token.
    var token: String
    /// Tokens that are dead: exchanged, and their successor shown; or revoked.
    var deadTokens: [String] = []
}

/// A zone as a campaign knows it, beside the model's rights.
struct SecrecyZone {
    /// The name in paths.
    let name: String
    /// Whether only people with a right in the hidden zone know it.
    let isHidden: Bool
    /// The last revision.
    var revision: Int64 = 0
    /// The epoch; nil before the first answer.
    var epoch: String?
    /// The schema's hash, and the fingerprint of the rows at ``revision``.
    var state: (schema: String, fingerprint: String)?
    /// The ids of change sets that were sent, each with the author.
    var sets: [(id: String, author: Int)] = []
    /// The assigned keys, by table.
    var keys: [String: [Int64]] = [:]
    /// The user of each device id that the zone has seen.
    var deviceOwners: [String: Int] = [:]
    /// The tags of snapshots.
    var tags: [String] = []
}

/// The sender of a request.
struct SecrecySender {
    /// The sender, as far as reading goes.
    let reader: ReadersModel.Reader
    /// The token that the request shows; nil for none.
    let token: String?

    /// A sender without a token.
    static let anonymous = SecrecySender(reader: .anonymous, token: nil)
}

/// An invitation of a campaign: its secret, and its number in the model.
struct SecrecyInvitation {
    let secret: String
    let number: Int
    let zone: Int
}
