import TidemarkCore

/// Checks the types of devices when a database is opened.
extension OpenDatabase {
    /// Refuses device types that differ from those of the tables, or name no column.
    func checkDeviceTypes(of record: ServedRecord) throws {
        guard let types = options.deviceTypes else { return }
        guard types.profile == record.deviceTypes else {
            throw TidemarkError(
                .invalidArgument, "Devices store this database's columns in the types \(record.deviceTypes.rawValue).",
                fix: "Leave --device-types out; the types are chosen when the tables are adopted.")
        }
        for (name, type) in types.columns.sorted(by: { $0.key < $1.key }) {
            let parts = name.split(separator: ".", maxSplits: 1).map(String.init)
            let column = record.schema.byName[parts[0]]?.columns.first { $0.name == parts.last }
            guard column?.type.uppercased() != type else { continue }
            throw TidemarkError(
                .invalidArgument,
                column.map { "Devices store the column \(name) as \($0.type)." }
                    ?? "--device-types names the column \(name), which is not synced.",
                fix: "Name a column of an adopted table; its type is chosen when the table is adopted.")
        }
    }
}
