/// The parts of a served file other than its synced tables and rows.
///
/// They travel with the schema, because a device's file is the program's whole database.
package struct FileObjects: Hashable, Sendable, Codable {
    /// A statement of the file.
    package struct Object: Hashable, Sendable, Codable {
        /// The kinds of objects, in the order of creation.
        package enum Kind: String, Hashable, Sendable, Codable, CaseIterable {
            /// A table that stays local: it exists on each device with rows of its own.
            case table
            /// An index of a local table.
            case index
            /// A virtual table, such as a full-text index.
            case virtual
            /// A view.
            case view
            /// A trigger of the program.
            case trigger
        }

        /// The kind.
        package let kind: Kind
        /// The name.
        package let name: String
        /// The `CREATE` statement, as SQLite stores it.
        package let sql: String
        /// Where a trigger runs that writes synced tables: where the program writes (true) or at the server.
        package let runsAtDevice: Bool?

        /// Creates an object.
        package init(kind: Kind, name: String, sql: String, runsAtDevice: Bool? = nil) {
            self.kind = kind
            self.name = name
            self.sql = sql
            self.runsAtDevice = runsAtDevice
        }
    }

    /// `PRAGMA user_version`, by which programs number their migrations.
    package var userVersion: Int64 = 0
    /// `PRAGMA application_id`, by which programs recognise their files.
    package var applicationID: Int64 = 0
    /// The names of the migrations that the file has had, as GRDB's migrator notes them.
    package var migrations: [String] = []
    /// The objects, in the order of creation.
    package var objects: [Object] = []
    /// The functions that only the program has.
    package var functions: [String] = []
    /// The names of the collations that stand for the program's own, by the program's name.
    package var collations: [String: String] = [:]

    /// Creates the parts of a file without any.
    package init() {}

    /// Decodes the parts; objects of a kind that this version does not know are left out.
    package init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        userVersion = try members.decodeIfPresent(Int64.self, forKey: .userVersion) ?? 0
        applicationID = try members.decodeIfPresent(Int64.self, forKey: .applicationID) ?? 0
        migrations = try members.decodeIfPresent([String].self, forKey: .migrations) ?? []
        objects = try members.decodeIfPresent([KnownObject].self, forKey: .objects)?.compactMap(\.object) ?? []
        functions = try members.decodeIfPresent([String].self, forKey: .functions) ?? []
        collations = try members.decodeIfPresent([String: String].self, forKey: .collations) ?? [:]
    }

    /// An object, or nil in place of one of an unknown kind.
    private struct KnownObject: Decodable {
        let object: Object?

        private enum CodingKeys: String, CodingKey { case kind }

        init(from decoder: any Decoder) throws {
            let kind = try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .kind)
            object = Object.Kind(rawValue: kind) == nil ? nil : try Object(from: decoder)
        }
    }

    /// Whether a file has only synced tables, so that the schema's text need not mention this.
    package var isEmpty: Bool { self == FileObjects() }

    /// Whether a trigger runs where the program writes instead of at the server.
    package var hasDeviceTriggers: Bool { objects.contains { $0.runsAtDevice == true } }
}
