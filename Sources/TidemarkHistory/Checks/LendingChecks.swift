/// Checks that the server lends each id once, and that a device draws only ids that it was lent.
extension HistoryChecker {
    /// Takes the lendings of an answer.
    mutating func take(_ places: [Answer.Places], of epoch: String, to request: Request) {
        guard let identity = devices[request.device]?.identity else { return }
        for lent in places {
            let taken = lendings[epoch, default: []].first { $0.places.overlaps(lent) }
            if let taken {
                report(
                    .noSilentOverwrite, actor: "server", subject: lent.table,
                    expected: "ids that no device was lent before",
                    found: "\(lent.first) and up, lent to \(identity) after \(taken.identity)")
            }
            lendings[epoch, default: []].append(Lending(places: lent, identity: identity))
        }
    }

    /// Checks the id of a new row in a device's file.
    mutating func checkDrawn(_ record: RecordID, in device: DeviceModel) {
        // A conflict that an app resolves has its id from an earlier time.
        guard let epoch = device.epoch, let id = Int64(record.key), device.inbox.isEmpty else { return }
        let owners = lendings[epoch, default: []].filter { $0.places.table == record.table && $0.places.contains(id) }
        guard let owner = owners.first, !owners.contains(where: { $0.identity == device.identity }) else { return }
        report(
            .noSilentOverwrite, actor: device.name, subject: record,
            expected: "an id that was lent to \(device.identity), or none that was lent",
            found: "an id of \(owner.identity)")
    }
}

/// Ids that the server has lent.
struct Lending: Sendable {
    let places: Answer.Places
    /// The UUID of the device.
    let identity: String
}

extension Answer.Places {
    /// Whether an id lies in one of the places.
    func contains(_ id: Int64) -> Bool { (first...last).contains(id) && (id - first) % stride < width }

    /// Whether two devices have an id in common.
    func overlaps(_ other: Self) -> Bool {
        guard table == other.table, first <= other.last, other.first <= last else { return false }
        guard stride == other.stride else { return true }
        let distance = (max(first, other.first) - min(first, other.first)) % stride
        return distance < width || stride - distance < width
    }
}
