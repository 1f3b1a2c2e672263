/// The name of a record of a zone; names compare by bytes, even where Unicode calls the texts of two keys equivalent.
package struct RecordID: Hashable, Sendable {
    /// The place of the table in ``SyncSchema/tables``.
    package let table: Int
    /// The key in canonical JSON.
    package let key: String

    package init(table: Int, key: String) {
        self.table = table
        self.key = key
    }

    package static func == (one: RecordID, other: RecordID) -> Bool {
        one.table == other.table && one.key.utf8.elementsEqual(other.key.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(table)
        var key = key
        key.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

/// The key that a device assigns to a new record until the server assigns the permanent one.
///
/// Two local forms exist. An app, or a person at the `sqlite3` shell, may write a small negative
/// id. An `INSERT` without an id into an `AUTOINCREMENT` table takes the next id of the reserved
/// region, 2^52 and up, which the server never assigns. The device sends a reserved id `n` as `-n`.
package enum TemporaryID {
    /// The first id of the reserved region; below 2^53, so that JavaScript readers keep it exact.
    package static let reservedMin: Int64 = 1 << 52
    package static let reservedMax: Int64 = (1 << 53) - 1
    /// The lowest id that a row may have when its table is first served.
    package static let adoptedMin: Int64 = -(1 << 51)
    package static let permanentMax: Int64 = reservedMin - 1
    /// The highest id that a server assigns: a program that chooses a higher one does not use up the server's ids.
    package static let assignedMax: Int64 = (1 << 51) - 1

    package static func isTemporary(_ id: Int64) -> Bool { id < 0 || id >= reservedMin }
}

/// What a commit did to a record, as capture triggers saw it.
package struct Effect: Sendable {
    /// The place of the table in ``SyncSchema/tables``.
    package let table: Int
    /// The key in canonical JSON.
    package let key: String
    /// The values of all columns before, in the order of ``SyncedTable/columns``; nil if the record did not exist.
    package let before: [Value]?
    /// The values of all columns afterwards; nil if the record does not exist any more.
    package let after: [Value]?
    /// The number of the captured change that first left `before`; 0 if the changes have no numbers.
    package let number: Int64

    package init(table: Int, key: String, before: [Value]?, after: [Value]?, number: Int64 = 0) {
        self.table = table
        self.key = key
        self.before = before
        self.after = after
        self.number = number
    }

    package var operation: Operation { before == nil ? .create : after == nil ? .delete : .update }
}

extension Value {
    /// Whether two values have the same type and bytes; `==` takes 0.0 for -0.0, and equates some texts by Unicode.
    package func isSame(as other: Value) -> Bool {
        switch (self, other) {
        case (.real(let one), .real(let two)): one.bitPattern == two.bitPattern
        case (.text(let one), .text(let two)): one.utf8.elementsEqual(two.utf8)
        default: self == other
        }
    }
}

/// The captured changes of one record, reduced to one effect.
///
/// Updates of a record merge, a record created and deleted meanwhile vanishes, and so does an update that changed
/// nothing.
///
/// Capture order does not tell which row is first or last. No database promises the order in which it runs the
/// triggers of an event: if the app's own trigger updates the row again before the capture trigger runs, the inner
/// change is captured before the outer one. But the changes of a record always form a path from state to state. An
/// intermediate state is left as often as it is entered; the first state is left once more, and the last state is
/// entered once more. If all states are balanced, the record did not change.
package struct CapturedPath: Sendable {
    private var steps: [(old: [Value]?, new: [Value]?, number: Int64)] = []

    package init() {}
    package init(from old: [Value]?, to new: [Value]?, _ number: Int64 = 0) { steps = [(old, new, number)] }
    /// Adds a captured change, which may have a number; nil is a record that does not exist.
    package mutating func add(from old: [Value]?, to new: [Value]?, _ number: Int64 = 0) {
        // A state that is left right after it was entered is neither the first nor the last one. Most paths are such a
        // chain, and need the memory of one step.
        if let last = steps.last, Self.isSame(last.new, old) {
            steps[steps.count - 1] = (last.old, new, last.number)
        } else {
            steps.append((old, new, number))
        }
    }

    /// Returns the effect on a record; nil if it did not change.
    package func effect(on name: RecordID) -> Effect? {
        guard let (before, after, number) = ends, !Self.isSame(before, after) else { return nil }
        return Effect(table: name.table, key: name.key, before: before, after: after, number: number)
    }

    /// A state of a record, with the balance of how often it was left and entered.
    private struct State {
        let row: [Value]?
        var balance = 0
        var firstLeft = Int.max
        var lastEntered = Int.min
    }

    /// The first and the last state, and the number of the change that left the first; nil if nothing changed.
    private var ends: (first: [Value]?, last: [Value]?, number: Int64)? {
        guard steps.count > 1 else { return steps.first.map { ($0.old, $0.new, $0.number) } }
        var states: [State] = []
        // Equal rows have one hash, but rows that are equal may differ in bytes.
        var places: [[Value]?: [Int]] = [:]
        func note(_ row: [Value]?, side: Int, at step: Int) {
            let index: Int
            if let place = places[row]?.first(where: { Self.isSame(states[$0].row, row) }) {
                index = place
            } else {
                index = states.count
                states.append(State(row: row))
                places[row, default: []].append(index)
            }
            states[index].balance += side
            if side > 0 { states[index].firstLeft = min(states[index].firstLeft, step) }
            if side < 0 { states[index].lastEntered = max(states[index].lastEntered, step) }
        }
        for (step, change) in steps.enumerated() {
            note(change.old, side: 1, at: step)
            note(change.new, side: -1, at: step)
        }
        let first = states.filter { $0.balance > 0 }.min { $0.firstLeft < $1.firstLeft }
        let last = states.filter { $0.balance < 0 }.max { $0.lastEntered < $1.lastEntered }
        guard let first, let last else { return nil }
        return (first.row, last.row, steps[first.firstLeft].number)
    }

    private static func isSame(_ one: [Value]?, _ other: [Value]?) -> Bool {
        switch (one, other) {
        case (nil, nil): true
        case (let one?, let other?): zip(one, other).allSatisfy { $0.isSame(as: $1) }
        default: false
        }
    }
}
