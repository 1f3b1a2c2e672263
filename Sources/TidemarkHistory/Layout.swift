/// The columns that the synced tables of one side have, at one time.
///
/// A column goes by the name that it had first, whatever it was renamed to since and whatever the
/// other side calls it, so that the checker knows nothing of names.
public struct Layout: Sendable, Equatable {
    /// For each table its columns, the key's among them, each with what a row has in it that says
    /// nothing.
    public let tables: [String: Cells]

    /// Makes a layout.
    public init(_ tables: [String: Cells]) { self.tables = tables }

    /// The columns of a table; nil: it is not there.
    subscript(table: String) -> Cells? { tables[table] }

    /// What a device with this layout and a zone with another one have both, with the zone's
    /// defaults: all that travels between them.
    func shared(with zone: Layout) -> Layout {
        var common: [String: Cells] = [:]
        for (table, columns) in tables {
            guard let theirs = zone[table] else { continue }
            common[table] = theirs.filter { columns[$0.key] != nil }
        }
        return Layout(common)
    }

    /// A row in the columns of this layout: those that it has not have their default.
    func fitted(_ row: Cells, of table: String) -> Cells? {
        tables[table].map { columns in
            var fitted = columns
            for column in columns.keys { if let value = row[column] { fitted[column] = value } }
            return fitted
        }
    }
}

extension Layout? {
    /// A row in the columns of the layout; without one, as it is.
    func fitted(_ row: Cells?, of table: String) -> Cells? {
        guard let layout = self else { return row }
        return row.flatMap { layout.fitted($0, of: table) }
    }

    /// The columns among some that the layout has; without one, all.
    func part(_ cells: Cells, of table: String) -> Cells {
        guard let layout = self else { return cells }
        guard let columns = layout[table] else { return [:] }
        return cells.filter { columns[$0.key] != nil }
    }

    /// Whether the layout has a table; without one, it has all.
    func has(_ table: String) -> Bool { self.map { $0[table] != nil } ?? true }

    /// What of a change set travels: what both sides have a place for, and nothing of an update of
    /// something else.
    func part(_ changes: [RecordChange]) -> [RecordChange] {
        guard let layout = self else { return changes }
        return changes.compactMap { change in
            guard layout[change.record.table] != nil else { return change }
            let cells = part(change.cells, of: change.record.table)
            guard change.operation != .update || !cells.isEmpty else { return nil }
            return RecordChange(change.record, change.operation, cells, base: change.base)
        }
    }
}
