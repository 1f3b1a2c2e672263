import TidemarkCore

/// Answers `GET /devices`: the devices of a zone, those that are farthest behind first.
package struct ListDevices {
    private let reader: any ZoneReader
    private let contacts: [DeviceContact]

    /// Wraps a read transaction; `contacts` are those of the zone that the server has only in memory.
    package init(_ reader: any ZoneReader, contacts: [DeviceContact]) {
        self.reader = reader
        self.contacts = contacts
    }

    /// The most devices of an answer.
    package static let devicesMax = 1_000

    package func json() throws -> String {
        let devices = try KnownDevices(reader, contacts: contacts).worstFirst
        return JSONText.object([
            ("epoch", JSONText.quote(reader.state.epoch)), ("revision", String(reader.state.revision)),
            ("count", String(devices.count)),
            ("devices", JSONText.array(devices.prefix(Self.devicesMax).map(text))),
        ])
    }

    private func text(_ device: DeviceRecord) -> String {
        JSONText.object([
            ("device", JSONText.quote(device.device)), ("name", ListRevisions.text(device.name)),
            ("user", ListRevisions.text(device.user)), ("revision", String(device.revision)),
            ("lag", String(max(0, reader.state.revision - device.revision))),
            ("firstContact", Moment.json(device.firstContact)), ("lastContact", Moment.json(device.lastContact)),
        ])
    }
}
