import Foundation
import TidemarkCore

/// What a transaction of a device gets from outside: the ends of the app's transactions, bounds, time and randomness.
struct Moment {
    var boundaries: KnownTransactions = []
    var limits = Limits.standard
    let now: Date
    let newID: () -> UUID

    /// The time as the bookkeeping stores it.
    var time: String { Timestamp.text(now) }
}
