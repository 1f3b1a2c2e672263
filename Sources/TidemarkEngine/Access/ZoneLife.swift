/// The life of a zone that was made while the server runs.
///
/// A zone is entered here before its tables are made. So a server that was killed between the two finds
/// the zone `planned` and makes the tables at the next use. Deleted zones keep their rows for a time,
/// because a deletion in error must not cost everybody's work.
///
/// | | tables made | deleted by an owner | restored by the operator | purged |
/// | --- | --- | --- | --- | --- |
/// | `planned` | `ready` | `deleted` | – | – |
/// | `ready` | `ready` | `deleted` | – | – |
/// | `deleted` | – | `deleted` | `planned` | gone |
package enum ZoneLife: String, CaseIterable, Sendable {
    /// Its tables may not be there yet.
    case planned
    case ready
    /// Nobody may use it.
    case deleted

    /// An event in the life of a zone.
    package enum Event: CaseIterable, Sendable {
        case made
        case deleted
        case restored
    }

    /// Returns the state after an event; nil if the event cannot happen in this state.
    package func after(_ event: Event) -> ZoneLife? {
        switch (self, event) {
        case (.planned, .made), (.ready, .made): .ready
        case (_, .deleted): .deleted
        // A zone that was deleted before its first use is made at the next one.
        case (.deleted, .restored): .planned
        case (.deleted, .made), (.planned, .restored), (.ready, .restored): nil
        }
    }
}
