import TidemarkCore

/// The types in which devices declare columns of types that SQLite lacks.
///
/// They are chosen when a store adopts the tables. The adopted `CREATE TABLE` statements keep them.
public struct DeviceTypes: Hashable, Sendable {
    /// A set of types, by the program that reads devices' files.
    public enum Profile: String, Hashable, Sendable, CaseIterable {
        /// PostgreSQL's own texts; `numeric` of up to 15 digits is a number.
        case standard
        /// Types that Django's backend for SQLite reads and writes.
        case django
        /// Types that SQLAlchemy's dialect for SQLite reads and writes.
        case sqlalchemy
        /// Types that Active Record's adapter for SQLite reads and writes.
        case rails
    }

    /// The types of all columns that ``columns`` does not name.
    public var profile: Profile
    /// The declared type of single columns, by `table.column`.
    public var columns: [String: String]

    /// Creates device types.
    public init(profile: Profile = .standard, columns: [String: String] = [:]) {
        self.profile = profile
        self.columns = columns
    }

    /// Parses a profile's name, and `table.column=TYPE` for single columns; throws `invalidArgument`.
    public init(_ texts: [String]) throws {
        self.init()
        for text in texts {
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            if parts.count == 2, parts[0].contains(".") {
                columns[parts[0]] = parts[1].uppercased()
            } else if let profile = Profile(rawValue: text) {
                self.profile = profile
            } else {
                throw TidemarkError(
                    .invalidArgument, "\(text) names no device types.",
                    fix: "Give \(Profile.allCases.map(\.rawValue).joined(separator: ", ")), or table.column=TYPE.")
            }
        }
    }

    /// Returns a column's declared type; throws `invalidArgument` if ``columns`` has one that devices cannot use.
    func declaredType(of column: String, in table: String, type: String) throws -> String {
        guard let own = columns["\(table).\(column)"] else { return Self.declaredType(type, profile) }
        let types = Self.types(for: type)
        guard types.contains(own) else {
            throw TidemarkError(
                .invalidArgument, "Devices cannot store the column \(table).\(column) of type \(type) as \(own).",
                fix: "Give --device-types one of \(types.joined(separator: ", ")) for it.",
                place: .init(table: table, column: column))
        }
        return own
    }

    /// Returns the declared types that devices may use for a type in PostgreSQL, the standard one first.
    static func types(for type: String) -> [String] {
        let standard = declaredType(type, .standard)
        let others: [String] =
            switch PostgresType.baseName(type) {
            case "numeric": ["NUMERIC", "TEXT"]
            case "uuid": ["CHAR(32)"]
            case "inet": ["TEXT"]
            case "interval": ["BIGINT"]
            case "time without time zone": ["TIME", "TIME(6)"]
            case let name where PostgresType.moments.contains(name): ["DATETIME", "DATETIME(6)"]
            default: []
            }
        return [standard] + others.filter { $0 != standard }
    }

    /// Whether a column of a served table keeps its declared type.
    static func isKept(_ declared: String, for type: String) -> Bool {
        let types = types(for: type)
        return types.count > 1 && types.contains(declared.uppercased())
    }

    private static func declaredType(_ type: String, _ profile: Profile) -> String {
        switch (PostgresType.baseName(type), profile) {
        case ("numeric", .django), ("numeric", .sqlalchemy): "NUMERIC"
        case ("numeric", _): isExactNumber(type) ? "NUMERIC" : "TEXT"
        case ("uuid", .django), ("uuid", .sqlalchemy): "CHAR(32)"
        case ("inet", _): "CHAR(43)"
        case ("interval", .django): "BIGINT"
        case ("time without time zone", .django): "TIME"
        case ("time without time zone", .sqlalchemy): "TIME(6)"
        case ("time without time zone", .rails): "TEXT"
        case (let name, .django) where PostgresType.moments.contains(name): "DATETIME"
        case (let name, .sqlalchemy) where PostgresType.moments.contains(name): "DATETIME(6)"
        case (let name, .rails) where PostgresType.moments.contains(name): "DATETIME(6)"
        default:
            switch PostgresType(column: type) {
            case .integer: "INTEGER"
            case .real: "REAL"
            case .boolean: "BOOLEAN"
            case .bytes: "BLOB"
            default: "TEXT"
            }
        }
    }

    /// Whether a SQLite number holds every value of a `numeric` exactly: 15 digits, none before its unit.
    private static func isExactNumber(_ type: String) -> Bool {
        let sizes = type.split(separator: "(").dropFirst().first?.prefix { $0 != ")" }.split(separator: ",")
            .compactMap { Int($0) }
        guard let precision = sizes?.first else { return false }
        return precision <= 15 && (0...100).contains(sizes?.dropFirst().first ?? 0)
    }
}
