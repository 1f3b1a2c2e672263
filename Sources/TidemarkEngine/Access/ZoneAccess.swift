public import TidemarkCore

/// The decision that a caller may use a zone, and with which rights.
///
/// Every function of ``SyncService`` that reads or writes a zone takes one, without a default. So a
/// route that does not decide about its caller does not compile.
public struct ZoneAccess: Hashable, Sendable {
    /// The zone's name.
    public let zone: String
    /// The sender of the request.
    public let caller: Caller
    /// The caller's rights in the zone.
    public let role: Role
    /// The name of the device that the request states, for operators; it gives no rights.
    package var deviceName: String?
    /// The network of the sender's address, by which senders without a token share readers; it gives no rights.
    package var network: String?
    /// The version of the decisions at which the gate decided; nil if it does not count.
    package var version: Int64?

    package init(zone: String, caller: Caller, role: Role) {
        self.zone = zone
        self.caller = caller
        self.role = role
    }

    /// Returns the access of a server without identity, and of a program that embeds a store: the owner's.
    public static func local(_ zone: String) -> ZoneAccess { ZoneAccess(zone: zone, caller: .local, role: .owner) }
}
