import Synchronization

/// What follows from a schema, made when it is needed first and then kept.
///
/// It distinguishes no two schemas. Safe to use from any thread.
final class SchemaForms: Sendable {
    private let names = Mutex<WireNames?>(nil)
    private let rows = Mutex<[RowLayout]?>(nil)

    func wireNames(of schema: SyncSchema) -> WireNames {
        names.withLock { names in
            let made = names ?? WireNames(of: schema)
            names = made
            return made
        }
    }

    func layouts(of schema: SyncSchema) -> [RowLayout] {
        rows.withLock { rows in
            let made = rows ?? schema.tables.map(RowLayout.init)
            rows = made
            return made
        }
    }
}

extension SchemaForms: Hashable {
    static func == (one: SchemaForms, other: SchemaForms) -> Bool { true }

    func hash(into hasher: inout Hasher) {}
}
