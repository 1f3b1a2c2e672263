import TidemarkCore

/// Answers `GET /devices`: the devices of a zone, those that are farthest behind first.
extension ZoneReader {
    /// The first 1,000 devices as JSON; `contacts` are those of the zone that the server has only in memory.
    package func devicesJSON(_ contacts: [DeviceContact]) throws -> String {
        let devices = try KnownDevices(self, contacts: contacts).worstFirst
        return JSONText.object([
            ("epoch", JSONText.quote(state.epoch)), ("revision", String(state.revision)),
            ("count", String(devices.count)),
            ("devices", JSONText.array(devices.prefix(1_000).map(text))),
        ])
    }

    private func text(_ device: DeviceRecord) -> String {
        JSONText.object([
            ("device", JSONText.quote(device.device)), ("name", ListRevisions.text(device.name)),
            ("user", ListRevisions.text(device.user)), ("revision", String(device.revision)),
            ("lag", String(max(0, state.revision - device.revision))),
            ("firstContact", Moment.json(device.firstContact)), ("lastContact", Moment.json(device.lastContact)),
        ])
    }
}
