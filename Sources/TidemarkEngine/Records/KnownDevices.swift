/// The devices of a zone: the stored ones, with the contacts that the server has only in memory so far.
struct KnownDevices {
    private let devices: [String: DeviceRecord]

    /// Reads the stored devices, and adds the contacts of the zone.
    init(_ reader: any ZoneReader, contacts: [DeviceContact]) throws {
        let stored = Dictionary(try reader.devices().map { ($0.device, $0) }) { $1 }
        let present = contacts.reduce(into: stored) { devices, contact in
            let known = devices[contact.device]
            guard known?.admits(contact) ?? true else { return }
            devices[contact.device] = DeviceRecord(contact, after: known)
        }
        devices = present.filter { !$0.value.isForgotten }
    }

    /// The devices, those that are farthest behind first.
    var worstFirst: [DeviceRecord] { devices.values.sorted { ($0.revision, $0.device) < ($1.revision, $1.device) } }

    /// The name of a device; nil if it has none or is not known.
    func name(of device: String) -> String? { devices[device]?.name }
}

extension DeviceRecord {
    /// A device after a contact that is not stored yet; `stored` is its record without this contact.
    fileprivate init(_ contact: DeviceContact, after stored: DeviceRecord?) {
        self.init(
            device: contact.device, name: contact.name, user: contact.user,
            revision: max(stored?.revision ?? 0, contact.revision ?? 0),
            firstContact: stored?.firstContact ?? contact.first,
            lastContact: max(stored?.lastContact ?? 0, contact.last), isForgotten: false)
    }
}
