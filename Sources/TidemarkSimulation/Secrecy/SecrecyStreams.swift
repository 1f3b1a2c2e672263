internal import Foundation
import TidemarkHistory
internal import TidemarkTestSupport

/// Streams of events, and what they tell after a membership ends.
extension SecrecyWorld {
    /// Removes a member who listens; from then on, none of the member's streams tells of the zone.
    ///
    /// The next commit follows at once, before the server looks at the rights by itself.
    func removeListener(_ owner: Int, _ zone: Int) async throws {
        let model = checker.model
        guard model.zones[zone].isShared, model.right(of: owner, in: zone) == .owner,
            let member = random.pick(actors.filter { $0 != owner && model.zones[zone].rights[$0] != nil })
        else { return }
        let device = people[member].devices[0]
        let paths = [
            "\(path(zone))/events?device=\(Self.encoded(device.id))", "/me/events", "\(path(zone))/changes",
        ]
        var streams: [SecrecyListener] = []
        for path in paths {
            guard let stream = try await client.listen(path, token: device.token) else {
                surprises.append("\(path) is refused")
                return
            }
            streams.append(stream)
        }
        for stream in streams { try await readOpening(of: stream, until: zone) }
        try await remove(owner, zone, other: member)
        guard checker.model.right(of: member, in: zone) == nil else { return }
        try await push(owner, zone)
        try await expectSilence(of: streams, to: member, about: zone)
    }

    /// Reads the first events of a stream, up to one about a zone.
    private func readOpening(of stream: SecrecyListener, until zone: Int) async throws {
        while let event = try await stream.next() {
            // A page of changes does not name its zone.
            if event.contains(zones[zone].name) || event.hasPrefix("event: changes") { return }
        }
    }

    /// Reads what the streams of a former member tell until they end or say that the list has changed.
    private func expectSilence(of streams: [SecrecyListener], to member: Int, about zone: Int) async throws {
        let moment = checker.begin(.person(member))
        for stream in streams {
            while let event = try await stream.next() {
                checker.check(Array(event.utf8), since: moment, "an event after the removal from zone \(zone)")
                // The list of the other zones follows at once.
                if event.hasPrefix("event: zones") || event.hasPrefix("event: bye") { break }
                if event.contains(zones[zone].name) || event.hasPrefix("event: changes") { break }
            }
        }
    }

    /// Records what a stream of all zones tells when the rights of its user change.
    func recordStream(_ person: Int) async throws {
        guard let stream = try await client.listen("/me/events", token: sender(person).token) else { return }
        try await makeZone(person)
        guard let made = zones.last else { return }
        let moment = checker.begin(.person(person))
        var events: [String] = []
        while let event = try await stream.next() {
            checker.check(Array(event.utf8), since: moment, "an event")
            events.append(event)
            // The new list ends with the zone that was made last; its revision is the first.
            if event.contains(made.name) { break }
        }
        record(events.filter { $0.hasPrefix("event: zones") || $0.contains(made.name) })
    }
}
