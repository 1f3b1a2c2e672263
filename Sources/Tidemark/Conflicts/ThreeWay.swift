import TidemarkCore
import TidemarkSQL

/// A record as its author saw it, and as it is now: two of the three images by which a change is judged.
///
/// The server judges changes by its log, which names the unseen changes; a device has only images. Values are compared
/// by type and bytes, and in the columns that both images have, because a migration can have added or dropped others
/// since. Whole tables, which a migration has rebuilt or given a column, are compared in SQL (``CompareRebuilt``,
/// ``TakeColumns``).
///
/// ``judge(_:mayAdd:)`` asks for one verdict, without policies, on a change whose history is in doubt:
///
/// | change | the record is now | verdict |
/// | --- | --- | --- |
/// | creation | absent | fits |
/// | creation | as the change leaves it | done |
/// | creation | anything else | conflict: exists |
/// | deletion | absent | done |
/// | deletion | as its author saw it | fits |
/// | deletion | anything else | conflict: changed, or exists if its author saw none |
/// | update | absent | conflict: deleted |
/// | update | as the change leaves it | done |
/// | update | as its author saw it | fits |
/// | update that only adds | anything else | fits, if it is certain that the record lacks the addition |
/// | update | anything else | conflict: changed, or exists if its author saw none |
///
/// An update of a column that the record lacks is a conflict. Equal sums do not prove that the change's own part is
/// among them, so a change that adds is never done.
struct ThreeWay: Sendable {
    /// The record as the author of the change saw it; nil if it did not exist.
    let base: RecordImage?
    /// The record as it is now; nil if it does not exist.
    let theirs: RecordImage?

    enum Verdict: Equatable, Sendable {
        /// The record has the result of the change already.
        case done
        /// The change overwrites nothing that its author has not seen.
        case fits
        case conflict(ConflictRule)
    }

    /// Whether the record is as its author saw it, in the columns that both images have.
    var isUntouched: Bool {
        guard let base, let theirs else { return base == nil && theirs == nil }
        return base.columns(differingFrom: theirs).isEmpty
    }

    /// Judges a change; `mayAdd` says that the record certainly lacks what the change adds.
    func judge(_ change: RecordChange, mayAdd: Bool = false) -> Verdict {
        guard let theirs else {
            switch change.operation {
            case .create: return .fits
            case .update: return .conflict(.deleted)
            case .delete: return .done
            }
        }
        switch change.operation {
        case .create: return isDone(change, theirs) ? .done : .conflict(.exists)
        case .delete: return isUntouched ? .fits : .conflict(base == nil ? .exists : .changed)
        case .update:
            if isDone(change, theirs) { return .done }
            if isUntouched, theirs.has(change.columns) { return .fits }
            if mayAdd, change.values.columns.isEmpty, !change.sums.isEmpty { return .fits }
            return .conflict(base == nil ? .exists : .changed)
        }
    }

    private func isDone(_ change: RecordChange, _ theirs: RecordImage) -> Bool {
        change.sums.isEmpty && theirs.has(change.columns)
            && change.values.columns(differingFrom: theirs).isEmpty
    }

    /// Whether a change, made on the present record, overwrites what its author has not seen and no policy lets go.
    ///
    /// A value that the server overrules is kept there. A new change set would hide that it did, so it counts.
    func isOverwritten(by change: RecordChange, of table: String, in schema: SyncSchema) -> Bool {
        // A deleted record has no values to overwrite, but an update would bring the record back.
        guard let theirs else { return base != nil && change.operation == .update }
        let differing = change.values.columns(differingFrom: theirs)
        guard let base else { return change.operation == .delete || !differing.isEmpty }
        let unseen = base.columns(differingFrom: theirs)
        guard !unseen.isEmpty else { return false }
        let contention = Contention(
            table: table, key: "", operation: change.operation == .create ? .update : change.operation,
            differingColumns: differing,
            absoluteColumns: Set(change.values.columns.keys).intersection(schema.addingColumns(of: table)),
            isSum: !change.sums.isEmpty && change.values.columns.isEmpty,
            unseen: [UnseenChange(operation: .update, columns: unseen)], exists: true)
        let judgement = TidemarkCore.judge(
            contention, policy: schema.policy(of: table), columns: schema.columnPolicies(of: table))
        return judgement != .merge
    }

    /// Whether a change replaces something of a record that none of the images `seen` has, whatever the policies say.
    static func isReplaced(_ present: RecordImage?, by change: RecordChange, whoSaw seen: [RecordImage?])
        -> Bool
    {
        // An update brings a deleted record back.
        guard let present else { return change.operation == .update && !seen.contains(nil) }
        var unseen = Set(present.columns.keys)
        if change.operation != .delete { unseen = change.values.columns(differingFrom: present) }
        return unseen.contains { column in
            !seen.contains { image in image.map { $0.columns[column] == present.columns[column] } ?? false }
        }
    }

    /// Returns the columns of `mine` that are neither as now, nor as its author saw them.
    func edits(in mine: RecordImage) -> Set<String> {
        Set(mine.columns.filter { theirs?.columns[$0.key] != $0.value && base?.columns[$0.key] != $0.value }.keys)
    }
}

/// A record's columns with their values in canonical JSON: a row, or a part of one.
struct RecordImage: Equatable, Sendable {
    /// The values by column, as bytes: texts are equal by Unicode where their bytes differ.
    var columns: [String: [UInt8]]
    /// The columns in the order of the text from which they come.
    private var order: [String]

    init(columns: [String: [UInt8]]) {
        self.columns = columns
        order = columns.keys.sorted()
    }

    /// Two images are equal if their values are; their order is for a reader.
    static func == (one: RecordImage, other: RecordImage) -> Bool { one.columns == other.columns }

    /// Reads an object of members; throws if the text is none.
    init(json: String) throws(InvalidValue) {
        let members = try Array(json.utf8).withUnsafeBufferPointer { (bytes) throws(InvalidValue) in
            var members: [(name: String, value: [UInt8])] = []
            do throws(TidemarkError) {
                var reader = try JSONReader(bytes)
                try reader.object(unchecked: true) { (reader, name) throws(TidemarkError) in
                    let name = WireName.name(of: reader.text(of: name))
                    members.append((name, JSONParts.compact(reader.bytes[try reader.skip(unchecked: true)])))
                }
                try reader.finish()
            } catch { throw InvalidValue(reason: "is no JSON of a row") }
            return members
        }
        columns = Dictionary(members.map { ($0.name, $0.value) }, uniquingKeysWith: { $1 })
        order = members.map(\.name)
    }

    /// The object of members.
    var json: String {
        let members = order.compactMap { name in
            columns[name].map {
                "\(JSONText.quote(WireName.member(column: name))):\(String(decoding: $0, as: UTF8.self))"
            }
        }
        return "{\(members.joined(separator: ","))}"
    }

    func part(_ names: some Collection<String>) -> RecordImage {
        var part = self
        part.columns = columns.filter { names.contains($0.key) }
        return part
    }

    func columns(differingFrom other: RecordImage) -> Set<String> {
        Set(columns.filter { column in other.columns[column.key].map { $0 != column.value } ?? false }.keys)
    }

    func has(_ names: Set<String>) -> Bool { names.allSatisfy { columns[$0] != nil } }

    /// Returns the image with a change's values; it ignores columns that the image lacks.
    func merged(_ change: RecordImage) -> RecordImage {
        var merged = self
        merged.columns.merge(change.columns.filter { columns[$0.key] != nil }) { $1 }
        return merged
    }

    /// The 64-bit integer in a column; nil for another value.
    func integer(_ column: String) -> Int64? {
        columns[column].flatMap { Int64(String(decoding: $0, as: UTF8.self)) }
    }
}

/// A change to one record, as an outbox or a conflict has it.
struct RecordChange: Equatable, Sendable {
    var operation: TidemarkCore.Operation
    /// The columns that it sets.
    var values: RecordImage
    /// The numbers that it adds to columns.
    var sums: [String: Int64]

    init(_ operation: TidemarkCore.Operation, values: RecordImage, sums: [String: Int64] = [:]) {
        self.operation = operation
        self.values = values
        self.sums = sums
    }

    /// Reads attributes, with deltas in place of some values; nil for none.
    init(_ operation: TidemarkCore.Operation, json: String?) throws(InvalidValue) {
        self.init(operation, values: RecordImage(columns: [:]))
        guard let json else { return }
        for (column, value) in try RecordImage(json: json).columns {
            if let number = Delta.number(json: String(decoding: value, as: UTF8.self)) {
                sums[column] = number
            } else {
                values.columns[column] = value
            }
        }
    }

    var columns: Set<String> { Set(values.columns.keys).union(sums.keys) }

    /// Adds a later change of the same author; a record that is deleted and made again is an update of all columns.
    mutating func append(_ later: RecordChange) {
        switch (operation, later.operation) {
        case (_, .delete): self = later
        case (.delete, _): self = RecordChange(.update, values: later.values, sums: later.sums)
        default:
            values.columns.merge(later.values.columns) { $1 }
            sums.merge(later.sums) { $0 &+ $1 }
        }
    }
}

extension RecordImage {
    /// Returns the columns with values that neither the confirmed row nor one of the pending changes has.
    ///
    /// Any of the changes may not fit, and is not in the row then. `base` is the confirmed row; without one, columns
    /// that no change sets are left out.
    func columnsNotExplained(by base: RecordImage?, _ changes: [RecordChange]) -> Set<String> {
        let names = base.map { Set($0.columns.keys) } ?? changes.reduce(into: []) { $0.formUnion($1.columns) }
        let unexplained = columns.filter { column, value in
            names.contains(column) && base?.columns[column] != value
                && !changes.contains { $0.values.columns[column] == value } && !isSum(column, over: base, changes)
        }
        return Set(unexplained.keys)
    }

    /// Whether a value is the confirmed one with some of the pending additions and values, in their order.
    private func isSum(_ column: String, over base: RecordImage?, _ changes: [RecordChange]) -> Bool {
        guard let wanted = integer(column), changes.contains(where: { $0.sums[column] != nil }) else { return false }
        // Mostly all additions are in the row, or those up to one, or all but one.
        let last = changes.lastIndex { $0.values.columns[column] != nil }
        let start = last.map { changes[$0].values } ?? base
        let additions = changes[(last.map { $0 + 1 } ?? 0)...].compactMap { $0.sums[column] }
        if var sum = start?.integer(column) {
            let total = additions.reduce(sum, &+)
            for addition in additions {
                sum &+= addition
                if sum == wanted || total &- addition == wanted { return true }
            }
        }
        var reached: Set<Int64?> = [base?.integer(column)]
        for change in changes where reached.count <= Self.sumsMax {
            if change.values.columns[column] != nil {
                reached.insert(change.values.integer(column))
            } else if let addition = change.sums[column] {
                reached.formUnion(reached.map { $0.map { $0 &+ addition } })
            }
        }
        return reached.count <= Self.sumsMax && reached.contains(wanted)
    }

    /// The most sums that a search looks at; beyond, a value counts as unexplained.
    private static let sumsMax = 10_000
}

extension Delta {
    /// The beginning of a delta in JSON without white space; no string contains it, as JSON escapes quotation marks.
    private static let prefix = #"{"$add":"#

    /// Returns the number in a delta, in JSON without white space; nil for another value.
    fileprivate static func number(json: String) -> Int64? {
        json.hasPrefix(prefix) ? Int64(json.dropFirst(prefix.count).dropLast()) : nil
    }
}
