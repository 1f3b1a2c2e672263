package import TidemarkCore

/// Renders records of a table as JSON for clients without rows.
///
/// A page renders all its records with one value, which quotes the names of the members once.
package struct RecordText {
    /// The columns' members, each as `"name":`.
    private let members: [String]

    /// Creates a renderer of rows that have these columns first.
    package init(_ columns: [SyncedTable.Column]) {
        members = columns.map { "\(JSONText.quote(Self.member(of: $0.name))):" }
    }

    /// Renders a row: its columns, then the related records, `$key` if wanted, and `$revision`.
    package func object(_ row: RowText, key: String? = nil, related: [(name: String, value: String)] = []) -> String {
        var output = ""
        append(row, key: key, related: related, to: &output)
        return output
    }

    /// Appends a row as ``object(_:key:related:)`` renders it.
    package func append(
        _ row: RowText, key: String? = nil, related: [(name: String, value: String)] = [], to output: inout String
    ) {
        output += "{"
        for (member, cell) in zip(members, row.cells) {
            output += member
            Self.append(cell, to: &output)
            output += ","
        }
        for member in related { output += "\(JSONText.quote(member.name)):\(member.value)," }
        if let key { output += "\"$key\":\(JSONText.quote(key))," }
        output += "\"$revision\":"
        output += String(row.revision)
        output += "}"
    }

    package static func object(_ row: RowText, columns: [SyncedTable.Column], key: String? = nil) -> String {
        RecordText(columns).object(row, key: key)
    }

    /// Returns the member that stands for a column: one that begins with `$` has one more.
    package static func member(of column: String) -> String { column.hasPrefix("$") ? "$" + column : column }

    /// Returns the column for which a member stands; nil for a member that is no column.
    package static func column(of member: String) -> String? {
        guard member.hasPrefix("$") else { return member }
        return member.hasPrefix("$$") ? String(member.dropFirst()) : nil
    }

    /// The largest integer that every JSON parser reads exactly.
    private static let exactMax: Int64 = 1 << 53

    /// Returns a value in canonical JSON as these clients get it: large integers as `$int`.
    package static func value(_ json: String) -> String {
        var output = ""
        append(json, to: &output)
        return output
    }

    private static func append(_ json: String, to output: inout String) {
        guard json.utf8.count >= 16, let first = json.utf8.first, first != UInt8(ascii: "\""),
            first != UInt8(ascii: "{"), let number = Int64(json), number.magnitude >= exactMax.magnitude
        else { return output += json }
        output += #"{"$int":"\#(json)"}"#
    }
}

/// A state of a zone: `355-1b60e08c5d2e91aa`, the revision and where its history began and led.
///
/// A restored server counts the same revisions again, so the first digits of the epoch belong to a state, and those of
/// the hash of the history up to its revision. The hash also differs where the operator restored a backup without
/// saying so. A state without a logged revision, as that of adopted rows, has the epoch alone.
package struct StateTag: Hashable, Sendable {
    package let revision: Int64
    /// The first digits of the epoch, then those of the history's hash, if it is known.
    private let history: String

    /// Creates the tag of a revision; `chain` is the hash of the history up to it, empty if unknown.
    package init(revision: Int64, epoch: String, chain: String) {
        self.revision = revision
        history = String(epoch.prefix(Self.digits) + chain.prefix(Self.digits))
    }

    /// Reads a tag; nil for another text.
    package init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, let revision = Int64(parts[0]), revision >= 0,
            [Self.digits, 2 * Self.digits].contains(parts[1].count)
        else { return nil }
        self.revision = revision
        history = String(parts[1])
    }

    /// Whether two tags of one revision belong to one history; if one of them lacks the hash, the epoch decides.
    package func agrees(with other: StateTag) -> Bool {
        revision == other.revision && (history.hasPrefix(other.history) || other.history.hasPrefix(history))
    }

    package var text: String { "\(revision)-\(history)" }

    /// 32 bits each: a state of another history passes once in 2^32.
    private static let digits = 8
}

/// A version of a record: the state of its revision, `"355-1b60e08c5d2e91aa"`.
///
/// In a page of many records, the version of each is its revision and the state of the page, in which it was seen:
/// `"355@361-1b60e08c9f3a21bc"`.
package struct RecordTag: Hashable, Sendable {
    package let revision: Int64
    /// The state in which the record was seen.
    package let state: StateTag

    /// Creates the tag of a record by the state of its revision.
    package init(_ state: StateTag) {
        revision = state.revision
        self.state = state
    }

    /// Reads a strong entity tag with its quotes; nil for another text.
    package init?(entityTag: some StringProtocol) {
        guard entityTag.hasPrefix("\""), entityTag.hasSuffix("\""), entityTag.count > 2 else { return nil }
        let parts = entityTag.dropFirst().dropLast().split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count <= 2, let state = parts.last.flatMap({ StateTag($0) }) else { return nil }
        let revision = parts.count == 2 ? Int64(parts[0]) : state.revision
        guard let revision, (0...state.revision).contains(revision) else { return nil }
        self.revision = revision
        self.state = state
    }

    /// The tag as a strong entity tag.
    package var entityTag: String { revision == state.revision ? "\"\(state.text)\"" : "\"\(revision)@\(state.text)\"" }
}

extension RowReader {
    /// Returns the tags of states of a zone that is in `zone`.
    func tags(of revisions: Set<Int64>, in zone: ZoneState) throws -> [Int64: StateTag] {
        let latest = revisions == [zone.revision] ? books.head?.chain : nil
        let chains = try latest.map { [zone.revision: $0] } ?? chains(of: revisions)
        return revisions.reduce(into: [:]) { tags, revision in
            tags[revision] = StateTag(revision: revision, epoch: zone.epoch, chain: chains[revision] ?? "")
        }
    }

    /// Returns the tag of a state of a zone that is in `zone`.
    func tag(of revision: Int64, in zone: ZoneState) throws -> StateTag {
        let tags = try tags(of: [revision], in: zone)
        return tags[revision] ?? StateTag(revision: revision, epoch: zone.epoch, chain: "")
    }

    /// Whether a state is one of the history that led to `zone`.
    func has(_ tag: StateTag, in zone: ZoneState) throws -> Bool {
        guard tag.revision <= zone.revision else { return false }
        return try self.tag(of: tag.revision, in: zone).agrees(with: tag)
    }
}

extension ZoneReader {
    package func tag(of revision: Int64) throws -> StateTag { try tag(of: revision, in: state) }

    /// Whether a state is one of the zone's history.
    package func has(_ tag: StateTag) throws -> Bool { try has(tag, in: state) }
}
