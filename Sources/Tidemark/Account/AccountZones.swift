internal import Foundation
public import TidemarkCore

/// The zones of the signed-in user, and their members.
///
/// Each function asks the server and throws ``TidemarkCore/TidemarkError``, for instance
/// ``TidemarkCore/ErrorCode/signInNeeded``.
extension SyncAccount {
    /// Returns the zones of the user with their latest revisions: of one kind, or, with nil, all.
    public func zones(_ kind: ZoneKind? = nil) async throws -> [ZoneSummary] {
        try await refreshList()
        return shownZones.filter { kind == nil || $0.kind == kind }
    }

    /// Makes a shared zone with a title for people, which the user owns, and returns its name, to open it.
    ///
    /// If its answer is lost, the next call with the same title returns the zone that the lost one made.
    public func createZone(title: String) async throws -> String {
        let request = unansweredCreations[title] ?? environment.newID().uuidString.lowercased()
        unansweredCreations[title] = request
        let zone = try await requireSession().createZone(title: title, request: request)
        unansweredCreations[title] = nil
        return zone
    }

    /// Changes a zone's name for people; only owners may.
    public func retitle(_ zone: String, _ title: String) async throws {
        try await requireSession().retitle(zone, title)
    }

    /// Makes an invitation to a zone for people with a role; only owners may.
    ///
    /// So many people (`uses`) can accept it within so many days. It returns the secret: put it behind the `#` of a
    /// link, so that no server's log has it.
    public func invite(to zone: String, as role: Role, uses: Int = 1, days: Int = 7) async throws -> String {
        try await requireSession().invite(to: zone, as: role, uses: uses, days: days)
    }

    /// Accepts a secret, or a link that ends with `#` and the secret; again by the same user, it has the same result.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/invitationInvalid`` for one that is used up, revoked or over.
    public func accept(_ invitation: String) async throws -> Membership {
        try await requireSession().accept(invitation)
    }

    /// Returns the members of a zone.
    public func members(of zone: String) async throws -> [ZoneMember] { try await requireSession().members(of: zone) }

    /// Changes the role of a member; only owners may.
    public func setRole(_ role: Role, of user: String, in zone: String) async throws {
        try await requireSession().setRole(role, of: user, in: zone)
    }

    /// Removes another member from a zone; only owners may.
    public func remove(_ user: String, from zone: String) async throws {
        try await requireSession().removeMember(user, from: zone)
    }

    /// Leaves a zone, and removes its file from this device.
    ///
    /// - Parameters:
    ///   - zone: The zone.
    ///   - despiteWaitingChanges: Whether to go on although the server lacks edits, which are lost then.
    /// - Throws: ``TidemarkCore/ErrorCode/changesWait``; ``TidemarkCore/ErrorCode/lastOwner`` for the last
    ///   owner: hand the zone over, or delete it.
    public func leave(_ zone: String, despiteWaitingChanges: Bool = false) async throws {
        try await remove(zone, despiteWaitingChanges: despiteWaitingChanges) {
            try await $0.removeMember(nil, from: zone)
        }
    }

    /// Deletes a zone for all members, and removes its file from this device; only owners may.
    ///
    /// The server's operator can restore it for 30 days.
    ///
    /// - Parameters:
    ///   - zone: The zone.
    ///   - despiteWaitingChanges: Whether to go on although the server lacks edits, which are lost then.
    /// - Throws: ``TidemarkCore/ErrorCode/changesWait``, or an error of the request.
    public func deleteZone(_ zone: String, despiteWaitingChanges: Bool = false) async throws {
        try await remove(zone, despiteWaitingChanges: despiteWaitingChanges) { try await $0.deleteZone(zone) }
    }
}
