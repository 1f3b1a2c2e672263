internal import Synchronization

/// The contacts of devices with zones since the last writing, in memory.
///
/// A request of a device costs an entry here and no write: the server writes all entries once a minute
/// (``SyncService/keepContacts()``). Safe to use from any task or thread.
public final class ContactBook: Sendable {
    /// The most devices in memory; the one whose contact is the oldest makes room for another.
    package static let devicesMax = 10_000
    /// The longest name of a device that is kept, in bytes.
    private static let deviceBytesMax = 255

    private struct Place: Hashable {
        let zone: String
        let device: String
    }

    private let now: @Sendable () -> Int64
    private let contacts: Mutex<LeastRecent<Place, DeviceContact>>

    /// Makes an empty book; `now` is the server's clock, in milliseconds since 1970.
    package init(devicesMax: Int = ContactBook.devicesMax, now: @escaping @Sendable () -> Int64) {
        self.now = now
        contacts = Mutex(LeastRecent(countMax: devicesMax))
    }

    /// Records an answer to a device, or a message on its stream; a revision that the server does not know is nil.
    ///
    /// It ignores a sender without a token at a server with users: anybody could fill the disk with devices.
    package func record(_ device: String, _ access: ZoneAccess, at revision: Int64?) {
        guard access.caller != .anonymous, device.utf8.count <= Self.deviceBytesMax, !device.utf8.contains(0) else {
            return
        }
        let time = now()
        let contact = DeviceContact(
            zone: access.zone, device: device, name: access.deviceName, user: access.caller.userID, first: time,
            last: time, revision: revision)
        contacts.withLock { $0.add(contact, at: Place(zone: access.zone, device: device)) }
    }

    /// The zones that have contacts to write, in order.
    package var zones: [String] { Set(contacts.withLock { $0.values.map(\.zone) }).sorted() }

    /// Returns the contacts of a zone that are not written yet, in no order.
    package func contacts(of zone: String) -> [DeviceContact] {
        contacts.withLock { $0.values.filter { $0.zone == zone } }
    }

    /// Removes the contacts to write: those of one zone, or all.
    package func take(zone: String? = nil) -> [DeviceContact] {
        contacts.withLock { contacts in
            let all = contacts.values
            contacts.removeAll()
            let taken = zone.map { zone in all.filter { $0.zone == zone } } ?? all
            if taken.count < all.count {
                for contact in all where contact.zone != zone {
                    contacts.add(contact, at: Place(zone: contact.zone, device: contact.device))
                }
            }
            return taken.sorted { ($0.zone, $0.device) < ($1.zone, $1.device) }
        }
    }

    /// Puts contacts back that could not be written; later ones of the same devices count.
    package func putBack(_ unwritten: [DeviceContact]) {
        contacts.withLock { contacts in
            for contact in unwritten {
                let place = Place(zone: contact.zone, device: contact.device)
                contacts.set(contacts.value(of: place).map { contact.followed(by: $0) } ?? contact, for: place)
            }
        }
    }

    /// Forgets a device in zones; with a user, only if its last request was that user's.
    package func forget(device: String, of user: String?, in zones: [String]) {
        let rest = take().filter { contact in
            contact.device != device || !zones.contains(contact.zone) || user != nil && contact.user != user
        }
        putBack(rest)
    }
}

extension LeastRecent where Value == DeviceContact {
    /// Adds a contact that is later than a known one of the same device; one of another user is none.
    fileprivate mutating func add(_ contact: DeviceContact, at place: Key) {
        guard let known = value(of: place) else { return set(contact, for: place) }
        guard known.user == nil || contact.user == nil || known.user == contact.user else { return }
        set(known.followed(by: contact), for: place)
    }
}

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

    func followed(by later: DeviceContact) -> DeviceContact {
        DeviceContact(
            zone: zone, device: device, name: later.name, user: later.user, first: first, last: max(last, later.last),
            revision: later.revision ?? revision)
    }
}
