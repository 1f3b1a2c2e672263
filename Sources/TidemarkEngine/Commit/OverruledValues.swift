import TidemarkCore

/// The values that a column's policy overrules, for the people who wrote them.
///
/// A losing value of the change set goes into the author's copy. A value that it replaces goes into a note for the
/// device that wrote it. If a program on the server wrote the replaced value, it goes into the author's copy, too.
struct OverruledValues {
    /// The records for the author's copy, a JSON object each.
    var own: [String] = []
    /// The notes for other devices, a JSON array of records each.
    var notes: [(device: String, records: String)] = []

    /// Makes no values.
    init() {}

    /// Takes the losing values of a change set out of it; creations of existing records become updates.
    ///
    /// - Returns: The values that have lost, canonical JSON, by record and column.
    static func drop(_ overrulings: [Overruling], from changeSet: inout PendingChangeSet, _ schema: SyncSchema) throws
        -> [RecordID: [String: String]]
    {
        let places = Dictionary(uniqueKeysWithValues: schema.tables.enumerated().map { ($1.name, $0) })
        let byName = Dictionary(
            uniqueKeysWithValues: overrulings.compactMap { overruling in
                places[overruling.contention.table].map {
                    (RecordID(table: $0, key: overruling.contention.key), overruling)
                }
            }
        )
        var lost: [RecordID: [String: String]] = [:]
        for index in changeSet.records.indices {
            let record = changeSet.records[index]
            let name = RecordID(table: record.table, key: record.key)
            guard let overruling = byName[name] else { continue }
            for (place, column) in Array(changeSet.columns(of: record)) where overruling.mine.contains(column.name) {
                if changeSet.delta(at: place) == nil {
                    lost[name, default: [:]][column.name] = String(
                        decoding: try changeSet.value(at: place).canonicalJSON,
                        as: UTF8.self
                    )
                }
                changeSet.overrule(at: place)
            }
            if record.operation == .create { changeSet.records[index].operation = .update }
        }
        return lost
    }

    /// Makes the values of a written change set from the rows before and after.
    init(
        _ overrulings: [Overruling],
        mine: [RecordID: [String: String]],
        before: [RecordID: [Value]],
        after: [RecordID: [Value]],
        author: String?,
        _ schema: SyncSchema
    ) {
        let places = Dictionary(uniqueKeysWithValues: schema.tables.enumerated().map { ($1.name, $0) })
        var byLoser: [String: [String]] = [:]
        for overruling in overrulings {
            guard let place = places[overruling.contention.table] else { continue }
            let name = RecordID(table: place, key: overruling.contention.key)
            let record = Record(name, schema, before: before[name], after: after[name])
            let lost = mine[name] ?? [:]
            let byDevice = Dictionary(grouping: overruling.theirs) {
                overruling.contention.holder(of: $0)?.stamp.device
            }
            for (device, columns) in byDevice.sorted(by: { $0.key ?? "" < $1.key ?? "" }) {
                guard let object = record.object(Set(columns), lost: record.valueBefore) else { continue }
                if let device, device != author {
                    byLoser[device, default: []].append(object)
                } else {
                    own.append(object)
                }
            }
            if let object = record.object(overruling.mine.filter { lost[$0] != nil }, lost: { lost[$0] }) {
                own.append(object)
            }
        }
        notes = byLoser.sorted { $0.key < $1.key }.map { ($0.key, "[\($0.value.joined(separator: ","))]") }
    }

    /// A record with both rows.
    private struct Record {
        let name: RecordID
        let table: SyncedTable
        let layout: RowLayout
        let before: [Value]?
        let after: [Value]?

        init(_ name: RecordID, _ schema: SyncSchema, before: [Value]?, after: [Value]?) {
            self.name = name
            table = schema.tables[name.table]
            layout = schema.layouts[name.table]
            self.before = before
            self.after = after
        }

        func valueBefore(_ column: String) -> String? { value(column, of: before) }

        private func value(_ column: String, of row: [Value]?) -> String? {
            guard let row, let place = table.columns.firstIndex(where: { $0.name == column }) else { return nil }
            return String(decoding: row[place].canonicalJSON, as: UTF8.self)
        }

        /// Returns the losing and the winning values of columns as a JSON object; nil without columns.
        ///
        /// For a deleted record, it has the whole row, so the device can create it again.
        func object(_ columns: Set<String>, lost: (String) -> String?) -> String? {
            let columns = columns.sorted()
            guard !columns.isEmpty else { return nil }
            let members = { (value: (String) -> String?) in
                columns.compactMap { column in
                    value(column).map { "\(JSONText.quote(WireName.member(column: column))):\($0)" }
                }.joined(separator: ",")
            }
            let keptMember =
                after == nil
                ? #""kept":null,"row":\#(before.map(layout.object) ?? "{}")"#
                : #""kept":{\#(members { value($0, of: after) })}"#
            return #"{"table":\#(JSONText.quote(table.name)),"key":\#(name.key),"#
                + #""lost":{\#(members(lost))},\#(keptMember)}"#
        }
    }
}
