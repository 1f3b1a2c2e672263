package import TidemarkCore

/// The change from one revision of a zone to a later one, small enough to push to listeners.
///
/// It holds the answer that the server gives to a device with the tag ``since``, so such a device
/// need not send a request. It is created once and shared by all listeners.
package final class ZoneChange: Sendable {
    /// The zone's revision before the change.
    package let base: ZoneRevision
    /// The tag of the devices that can apply the change.
    package let since: ZoneTag
    /// The zone's revision after the change.
    package let end: ZoneRevision
    /// The devices whose change sets it contains; they have them already.
    package let authors: Set<String>
    /// The answer, JSON on one line.
    package let answer: String

    /// Makes a change.
    package init(base: ZoneRevision, since: ZoneTag, end: ZoneRevision, authors: Set<String>, answer: String) {
        self.base = base
        self.since = since
        self.end = end
        self.authors = authors
        self.answer = answer
    }
}

extension ZoneChange: Hashable {
    /// Compares identities: a change is created only once.
    package static func == (a: ZoneChange, b: ZoneChange) -> Bool { a === b }

    /// Hashes the identity.
    package func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
