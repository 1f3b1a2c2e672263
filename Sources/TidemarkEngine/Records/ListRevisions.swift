import Foundation
package import TidemarkCore

/// The parameters of a list of revisions, or of what happened in them.
package struct PageQuery: Hashable, Sendable {
    /// The revision or refusal before which the page begins.
    package var before: Int64 = .max
    /// The most elements.
    package var limit = 50
    /// Only revisions that changed this table.
    package var table: String?
    /// Only revisions of this device or user.
    package var author: String?

    /// Reads the parameters; `isFiltered` allows those that choose revisions.
    package init(_ items: [ListQuery.Item], isFiltered: Bool = true) throws(TidemarkError) {
        for item in items {
            switch item.name {
            case "before": before = Int64(item.value) ?? -1
            case "limit": limit = Int(item.value) ?? 0
            case "table" where isFiltered: table = item.value
            case "author" where isFiltered: author = item.value
            default: throw Self.invalid(item.name)
            }
        }
        guard before >= 0 else { throw Self.invalid("before") }
        guard (1...500).contains(limit) else { throw Self.invalid("limit") }
    }

    private static func invalid(_ name: String) -> TidemarkError {
        TidemarkError(
            .invalidFilter, "The server cannot read the parameter \(name).",
            fix: """
                Write limit=1 to 500, and before= the `next` of the previous page; a list of revisions also has \
                table=NAME and author=DEVICE or USER.
                """)
    }
}

/// Answers `GET /revisions` and `GET /revisions/{n}`: what happened in a zone, newest first.
package struct ListRevisions {
    private let reader: any ZoneReader
    private let contacts: [DeviceContact]

    /// Wraps a read transaction; `contacts` are those of the zone that the server has only in memory.
    package init(_ reader: any ZoneReader, contacts: [DeviceContact] = []) {
        self.reader = reader
        self.contacts = contacts
    }

    package func json(_ query: PageQuery) throws -> String {
        if let table = query.table { _ = try reader.schema.table(table) }
        let revisions = try reader.log.revisions(
            before: query.before, table: query.table, author: query.author, limit: query.limit + 1)
        let devices = try KnownDevices(reader, contacts: contacts)
        let shown = revisions.prefix(query.limit)
        let next = revisions.count > query.limit ? shown.last.map { String($0.revision) } : nil
        return JSONText.object([
            ("epoch", JSONText.quote(reader.state.epoch)), ("revision", String(reader.state.revision)),
            ("horizon", String(reader.state.horizon)), ("next", next ?? "null"),
            ("revisions", JSONText.array(shown.map { JSONText.object(Self.members(of: $0, devices)) })),
        ])
    }

    /// One revision with its change set as JSON.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/unknownRecord`` if there is no such revision.
    package func json(_ revision: Int64) throws -> String {
        guard let record = try reader.log.revisions([revision]).first else {
            throw TidemarkError(
                .unknownRecord, "The zone's log has no such revision.",
                fix: "GET /revisions lists them, from \(reader.state.revision) downwards.")
        }
        let changes = try reader.log.changeSet(of: revision)
        let members = Self.members(of: record, try KnownDevices(reader, contacts: contacts))
        return JSONText.object(members + [("changes", changes ?? "null")])
    }

    static func members(of record: RevisionRecord, _ devices: KnownDevices) -> [(name: String, value: String)] {
        let tables = record.tables.sorted { $0.key < $1.key }.map { name, counts in
            let text = JSONText.object([
                ("created", String(counts.created)), ("updated", String(counts.updated)),
                ("deleted", String(counts.deleted)),
            ])
            return (name: name, value: text)
        }
        return [("revision", String(record.revision))] + author(of: record, devices) + [
            ("tables", JSONText.object(tables))
        ]
    }

    static func author(of record: RevisionRecord, _ devices: KnownDevices) -> [(name: String, value: String)] {
        let name = record.device.flatMap { devices.name(of: $0) }
        return [
            ("committed", Moment.json(record.committed)), ("source", JSONText.quote(record.source.rawValue)),
            ("device", text(record.device)), ("name", text(name)), ("user", text(record.user)),
        ]
    }

    static func text(_ text: String?) -> String { text.map { JSONText.quote($0) } ?? "null" }
}

/// Times in ISO 8601, UTC, with milliseconds.
enum Moment {
    /// Returns a time in milliseconds since 1970 as JSON; unknown times are null.
    static func json(_ milliseconds: Int64?) -> String {
        guard let milliseconds, milliseconds > 0 else { return "null" }
        let date = Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
        return JSONText.quote(date.formatted(Date.ISO8601FormatStyle(includingFractionalSeconds: true)))
    }
}
