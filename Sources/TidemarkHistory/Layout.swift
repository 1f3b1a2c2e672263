/// The columns of one side's synced tables at one time.
///
/// A column has its first name, whatever its later names are and whatever the other side calls it.
/// So the checker needs no renames.
package struct Layout: Sendable, Equatable {
    /// The columns of each table, the key's among them, each with its default.
    package let tables: [String: Cells]

    /// Makes a layout.
    package init(_ tables: [String: Cells]) { self.tables = tables }

    /// The columns of a table; nil if the table does not exist.
    subscript(table: String) -> Cells? { tables[table] }

    /// The columns that a device with this layout and a zone with another one share, with the
    /// zone's defaults.
    ///
    /// Only these travel.
    func shared(with zone: Layout) -> Layout {
        var common: [String: Cells] = [:]
        for (table, columns) in tables {
            guard let theirs = zone[table] else { continue }
            common[table] = theirs.filter { columns[$0.key] != nil }
        }
        return Layout(common)
    }

    /// The row in the columns of this layout.
    ///
    /// A missing column has its default.
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

    /// The part of a change set that travels: the shared columns, and no update of other columns
    /// alone.
    func part(_ changes: [RecordChange]) -> [RecordChange] {
        guard let layout = self else { return changes }
        return changes.compactMap { change in
            guard layout[change.record.table] != nil else { return change }
            let cells = part(change.cells, of: change.record.table)
            guard change.operation != .update || !cells.isEmpty else { return nil }
            return RecordChange(change.record, operation: change.operation, cells: cells, base: change.base)
        }
    }
}
