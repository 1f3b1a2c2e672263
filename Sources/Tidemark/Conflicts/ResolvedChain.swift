/// The outcome of a decision about a conflict and those that build on it.
package struct ResolvedChain: Sendable {
    /// The conflicts that were resolved with it, in their order, with the records that a retry creates again.
    package internal(set) var dependents: [(conflict: Conflict, anew: [Conflict.Record])] = []
    /// The conflicts that build on it and are still parked, in the order in which to resolve them.
    package internal(set) var open: [Conflict] = []
}
