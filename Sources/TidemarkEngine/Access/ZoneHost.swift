/// A store that makes zones while the server runs.
package protocol ZoneHost: Sendable {
    /// Makes a zone with empty tables unless there is one; throws if the store has one zone only, or cannot write.
    func makeZone(_ name: String) async throws

    /// Removes a zone with its rows and its history for good; does nothing if there is none.
    func removeZone(_ name: String) async throws
}
