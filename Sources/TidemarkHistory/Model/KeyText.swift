/// Keys as text: one value's JSON, or an array of them.
enum KeyText {
    /// The key that values make.
    static func join(_ parts: [String]) -> String { parts.count == 1 ? parts[0] : "[\(parts.joined(separator: ","))]" }

    /// The values of a key with several columns.
    static func split(_ key: String, count: Int) -> [String] {
        guard count > 1 else { return [key] }
        var parts: [[UInt8]] = [[]]
        var isInString = false
        var isEscaped = false
        var depth = 0
        for byte in key.utf8.dropFirst().dropLast() {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
            } else {
                switch byte {
                case UInt8(ascii: "\""): isInString = true
                case UInt8(ascii: "{"): depth += 1
                case UInt8(ascii: "}"): depth -= 1
                case UInt8(ascii: ",") where depth == 0:
                    parts.append([])
                    continue
                default: break
                }
            }
            parts[parts.count - 1].append(byte)
        }
        return parts.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Whether an integer key is a temporary id.
    static func isTemporary(_ key: String) -> Bool {
        guard let id = Int64(key) else { return false }
        return id < 0 || id >= 1 << 52
    }
}

/// Temporary ids, each with the permanent one that it became, by table.
typealias Identities = [String: [Int64: Int64]]

extension Rules {
    /// The columns of a record's key.
    func keyCells(_ record: RecordID) -> Cells {
        guard let key = table(record.table)?.key else { return [:] }
        return Cells(zip(key, KeyText.split(record.key, count: key.count)), uniquingKeysWith: { first, _ in first })
    }

    /// The records that a row refers to, or that it refers to through one column.
    func parents(of table: String, _ row: Cells, through column: String? = nil) -> [RecordID] {
        guard let references = self.table(table)?.references else { return [] }
        return references.compactMap { reference in
            if let column, !reference.columns.contains(column) { return nil }
            var parts: [String] = []
            for column in reference.columns {
                guard let cell = row[column], cell != "null" else { return nil }
                parts.append(cell)
            }
            return RecordID(reference.parent, KeyText.join(parts))
        }
    }

    /// The record under the ids that the server gave.
    func translated(_ record: RecordID, _ ids: Identities) -> RecordID {
        guard !ids.isEmpty, let table = table(record.table) else { return record }
        if table.hasAssignedKeys {
            guard let id = Int64(record.key), let permanent = ids[record.table]?[id] else { return record }
            return RecordID(record.table, String(permanent))
        }
        let cells = translated(keyCells(record), of: record.table, ids)
        return RecordID(record.table, KeyText.join(table.key.map { cells[$0] ?? "null" }))
    }

    /// The record as it travels: temporary ids are negative, whatever the device's tables hold.
    func wire(_ record: RecordID) -> RecordID {
        guard let table = table(record.table) else { return record }
        let columns = table.references.filter { self.table($0.parent)?.hasAssignedKeys == true }.flatMap(\.columns)
        let parts = zip(table.key, KeyText.split(record.key, count: table.key.count)).map {
            (table.hasAssignedKeys || columns.contains($0)) && KeyText.isTemporary($1) && !$1.hasPrefix("-")
                ? "-" + $1 : $1
        }
        return RecordID(record.table, KeyText.join(parts))
    }

    /// A row, or some of its columns, under the ids that the server gave.
    func translated(_ cells: Cells, of name: String, _ ids: Identities) -> Cells {
        guard !ids.isEmpty, let table = table(name) else { return cells }
        var cells = cells
        for reference in table.references where reference.columns.count == 1 {
            let column = reference.columns[0]
            guard let id = cells[column].flatMap(Int64.init), let permanent = ids[reference.parent]?[id] else {
                continue
            }
            cells[column] = String(permanent)
        }
        if table.hasAssignedKeys, let column = table.key.first, let id = cells[column].flatMap(Int64.init),
            let permanent = ids[name]?[id]
        {
            cells[column] = String(permanent)
        }
        return cells
    }

    /// A change under the ids that the server gave.
    func translated(_ change: RecordChange, _ ids: Identities) -> RecordChange {
        RecordChange(
            translated(change.record, ids), operation: change.operation,
            cells: translated(change.cells, of: change.record.table, ids), base: change.base)
    }

    /// The number that a cell of a change adds; nil for a plain value.
    static func delta(_ cell: String) -> Int64? {
        guard cell.hasPrefix(#"{"$add":"#) else { return nil }
        return Int64(cell.dropFirst(8).dropLast())
    }

    /// The value where a change adds to another value than an integer, or beyond 64 bits.
    ///
    /// The server refuses it, and no file shows it.
    static let noSum = "no sum"

    /// A value after a cell of a change.
    private static func sum(of old: String, _ new: String) -> String {
        guard let delta = delta(new) else { return new }
        guard let old = Int64(old), case let (sum, isTooLarge) = old.addingReportingOverflow(delta), !isTooLarge else {
            return noSum
        }
        return String(sum)
    }

    /// The row after a change.
    ///
    /// An update of nothing is nothing: its author learns that from the verdict.
    func applied(_ change: RecordChange, to row: Cells?) -> Cells? {
        switch change.operation {
        case .delete: nil
        case .create: keyCells(change.record).merging(change.cells) { _, new in new }
        case .update: row?.merging(change.cells) { old, new in Self.sum(of: old, new) }
        }
    }
}
