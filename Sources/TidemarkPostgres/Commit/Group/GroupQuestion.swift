import TidemarkCore
import TidemarkEngine
import TidemarkStoreSupport

/// Queries for the bookkeeping that a group of requests will probably need.
///
/// They run in the round trip that begins the transaction. The store guesses them from the bodies'
/// bytes, before it parses them. A missed id only costs a later statement.
struct GroupQuestion: Sendable {
    /// Texts with the form of a UUID, as spelled and in lower case.
    let ids: Set<String>
    /// The oldest revision among the requests.
    let oldest: Int64?

    /// The maximum size of a body to scan, in bytes; a larger body has mostly rows.
    private static let scanBytesMax = 64 << 10

    /// The maximum number of revisions to read.
    private static let revisionsMax: Int64 = 64
    /// The maximum size of the revisions to read, in bytes.
    private static let bytesMax = 1 << 20

    init(_ requests: [ZoneRequest]) {
        var ids = Set<String>()
        var oldest = Int64?.none
        for request in requests where request.kind == .sync {
            if request.body.count <= Self.scanBytesMax {
                for id in Self.ids(in: request.body) { ids.formUnion([id, id.lowercased()]) }
            }
            if let revision = Self.revision(in: request.body) { oldest = min(oldest ?? revision, revision) }
        }
        self.ids = ids
        self.oldest = oldest
    }

    /// Finds quoted texts with the form of a UUID.
    static func ids(in body: [UInt8]) -> [String] {
        var ids = [String]()
        var start = Int?.none
        for (index, byte) in body.enumerated() where byte == UInt8(ascii: "\"") {
            if let start, index - start == 37, isID(body[(start + 1)..<index]) {
                ids.append(String(decoding: body[(start + 1)..<index], as: UTF8.self))
            }
            start = index
        }
        return ids
    }

    private static func isID(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.enumerated().allSatisfy { index, byte in
            index == 8 || index == 13 || index == 18 || index == 23
                ? byte == UInt8(ascii: "-") : UnicodeScalar(byte).properties.isASCIIHexDigit
        }
    }

    /// Parses the digits after the first `"maxRevision":`.
    static func revision(in body: [UInt8]) -> Int64? {
        guard let start = end(of: revisionName, in: body) else { return nil }
        let digits = body[start...].prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        return Int64(String(decoding: digits, as: UTF8.self)).flatMap { $0 < 1 << 60 ? $0 : nil }
    }

    private static let revisionName = Array(#""maxRevision":"#.utf8)

    /// Finds the end of the first occurrence of `name` in the first bytes of `text`.
    static func end(of name: [UInt8], in text: [UInt8]) -> Int? {
        text.withUnsafeBufferPointer { text in
            name.withUnsafeBufferPointer { name in
                let last = min(text.count, scanBytesMax) - name.count
                guard last >= 0 else { return nil }
                let start = (0...last).first { start in
                    text[start] == name[0] && name.indices.allSatisfy { text[start + $0] == name[$0] }
                }
                return start.map { $0 + name.count }
            }
        }
    }

    /// The statements of the queries, in the order that ``GroupFacts`` expects.
    func statements(zone: String, layoutHash: String) -> [PostgresStatement] {
        let ids = PostgresArray.quoted(self.ids.sorted())
        let oldest = oldest.map(String.init)
        return [
            PostgresStatement(
                """
                SELECT (SELECT latest.chain FROM tidemark.revision AS latest
                        WHERE latest.zone = $1 AND latest.revision = zone.revision),
                    (SELECT stored.fingerprint FROM tidemark.fingerprint AS stored
                        WHERE stored.zone = $1 AND stored.revision = zone.revision AND stored.shape = $2),
                    EXISTS (SELECT 1 FROM tidemark.outside AS outside WHERE outside.zone = $1), zone.revision
                FROM tidemark.zone AS zone
                WHERE zone.zone = $1
                """,
                [zone, layoutHash]
            ),
            PostgresStatement(
                "SELECT device, lap, revision, user_id FROM tidemark.lap WHERE zone = $1 AND device = ANY ($2::text[])",
                [zone, ids]
            ), PostgresStatement("\(StoredVerdict.sql) AND id = ANY ($2::text[])", [zone, ids]),
            PostgresStatement(
                """
                SELECT revision, device, body, chain, previous
                FROM (
                    SELECT entry.revision, entry.device, entry.body, entry.chain,
                        nullif(before.chain, '') AS previous,
                        sum(octet_length(entry.body)) OVER (ORDER BY entry.revision) AS bytes
                    FROM tidemark.revision AS entry
                    LEFT JOIN tidemark.revision AS before
                        ON before.zone = entry.zone AND before.revision = entry.revision - 1
                    WHERE entry.zone = $1 AND entry.revision > $2::bigint
                        AND entry.revision <= $2::bigint + \(Self.revisionsMax)
                ) AS measured
                WHERE bytes <= \(Self.bytesMax)
                ORDER BY revision
                """,
                [zone, oldest]
            ),
            PostgresStatement(
                """
                SELECT revision, fingerprint
                FROM tidemark.fingerprint
                WHERE zone = $1
                    AND revision BETWEEN $2::bigint AND $2::bigint + \(Self.revisionsMax) AND shape = $3
                """,
                [zone, oldest, layoutHash]
            ), PostgresStatement("SAVEPOINT plan"),
        ]
    }
}

/// The results of a ``GroupQuestion`` at the beginning of the transaction.
struct GroupFacts {
    /// The ids that the question covered; the absence of any other id proves nothing.
    var queriedIDs: Set<String> = []
    var laps: [String: Exchange] = [:]
    var verdicts: [String: Verdict] = [:]
    var recent: [Int64: PlanFacts.Recent] = [:]
    var fingerprints: [Int64: Fingerprint] = [:]
    /// The hash of the history up to the latest revision.
    var chain: (revision: Int64, hash: String)?
    /// Whether no changes of other programs wait to be absorbed.
    var isAbsorbed = false

    /// Reads the results of ``GroupQuestion/statements(zone:layoutHash:)``.
    init(_ question: GroupQuestion?, _ results: ArraySlice<PostgresRows>) {
        guard let question, let head = results.first, !head.isEmpty else { return }
        queriedIDs = question.ids
        let revision = head[0].integer(3) ?? 0
        chain = (revision, head[0][0] ?? "")
        fingerprints[revision] = head[0][1].flatMap(Fingerprint.init(hex:))
        isAbsorbed = !head[0].isTrue(2)
        read(Array(results.dropFirst()))
    }

    private mutating func read(_ results: [PostgresRows]) {
        for row in results[0].map({ $0 }) {
            laps[row.text(0)] = Exchange(lap: row.text(1), revision: row.integer(2) ?? 0, user: row[3])
        }
        for stored in results[1].map({ StoredVerdict($0) }) { verdicts[stored.id] = stored.verdict }
        for row in results[2].map({ $0 }) {
            let revision = row.integer(0) ?? 0
            let entry = RecentChangeSet(
                revision: revision,
                device: row[1],
                fingerprint: nil,
                chain: row.text(3),
                body: row.text(2)
            )
            // A request that needs a damaged entry finds and handles the damage later.
            guard row[4].map(entry.follows) ?? true else { continue }
            recent[revision] = PlanFacts.Recent(device: entry.device, body: entry.body)
        }
        for row in results[3].map({ $0 }) { fingerprints[row.integer(0) ?? 0] = row[1].flatMap(Fingerprint.init(hex:)) }
    }
}
