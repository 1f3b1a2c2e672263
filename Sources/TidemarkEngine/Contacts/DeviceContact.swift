/// A device's contact with a zone.
public struct DeviceContact: Hashable, Sendable {
    /// The most devices of one user in a zone; above it, the one whose contact is the oldest is forgotten.
    package static let devicesPerUserMax = 200

    /// The zone.
    public let zone: String
    /// The device's id.
    public let device: String
    /// The name that the device's last request states; nil if it states none.
    public let name: String?
    /// The user who sent the last request; nil at a server without users.
    public let user: String?
    /// The time of the first contact, in milliseconds since 1970 by the server's clock.
    public let first: Int64
    /// The time of the last contact, in milliseconds since 1970 by the server's clock.
    public let last: Int64
    /// The device's revision after the last answer; nil if the server does not know it.
    public let revision: Int64?

    /// Returns the contact of the same device after a later one.
    func followed(by later: DeviceContact) -> DeviceContact {
        DeviceContact(
            zone: zone,
            device: device,
            name: later.name,
            user: later.user,
            first: first,
            last: max(last, later.last),
            revision: later.revision ?? revision
        )
    }
}
