import TidemarkCore
import TidemarkServer
import TidemarkStore

/// What a group of requests will ask the zone's bookkeeping, as far as their bytes tell: asked in
/// the round trip that begins the transaction.
///
/// A guess, made before the bodies are read: what it misses is asked when it is needed. So an id
/// that a body spells in another way costs a statement, and nothing else.
struct GroupQuestion: Sendable {
    /// What looks like a device or a change set, in lower case and as it is spelled.
    let ids: Set<String>
    /// The oldest revision that a request says it has.
    let oldest: Int64?

    /// Bodies above this many bytes are about rows, not about ids.
    private static let scannedMax = 64 << 10

    /// How many revisions are asked for, and of how many bytes.
    private static let revisionsMax: Int64 = 64
    private static let bytesMax = 1 << 20

    init(_ requests: [ZoneRequest]) {
        var ids = Set<String>()
        var oldest = Int64?.none
        for request in requests where request.kind == .sync {
            if request.body.count <= Self.scannedMax {
                for id in Self.ids(in: request.body) { ids.formUnion([id, id.lowercased()]) }
            }
            if let revision = Self.revision(in: request.body) { oldest = min(oldest ?? revision, revision) }
        }
        self.ids = ids
        self.oldest = oldest
    }

    /// The texts in quotes that have the form of a UUID.
    static func ids(in body: [UInt8]) -> [String] {
        var found = [String]()
        var start = Int?.none
        for (index, byte) in body.enumerated() where byte == UInt8(ascii: "\"") {
            if let start, index - start == 37, isID(body[(start + 1)..<index]) {
                found.append(String(decoding: body[(start + 1)..<index], as: UTF8.self))
            }
            start = index
        }
        return found
    }

    private static func isID(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.enumerated().allSatisfy { index, byte in
            index == 8 || index == 13 || index == 18 || index == 23
                ? byte == UInt8(ascii: "-") : UnicodeScalar(byte).properties.isASCIIHexDigit
        }
    }

    /// The digits behind the first `"maxRevision":`.
    static func revision(in body: [UInt8]) -> Int64? {
        guard let start = end(of: revisionName, in: body) else { return nil }
        let digits = body[start...].prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        return Int64(String(decoding: digits, as: UTF8.self)).flatMap { $0 < 1 << 60 ? $0 : nil }
    }

    private static let revisionName = Array(#""maxRevision":"#.utf8)

    /// Where the first occurrence of `name` within the first bytes of `text` ends.
    static func end(of name: [UInt8], in text: [UInt8]) -> Int? {
        text.withUnsafeBufferPointer { text in
            name.withUnsafeBufferPointer { name in
                let last = min(text.count, scannedMax) - name.count
                guard last >= 0 else { return nil }
                let start = (0...last).first { start in
                    text[start] == name[0] && name.indices.allSatisfy { text[start + $0] == name[$0] }
                }
                return start.map { $0 + name.count }
            }
        }
    }

    /// The statements that ask.
    func statements(zone: String, shape: String) -> [PostgresStatement] {
        let ids = PostgresArray.quoted(self.ids.sorted())
        let oldest = oldest.map(String.init)
        return [
            PostgresStatement(
                """
                SELECT (SELECT r.chain FROM tidemark.revision AS r
                        WHERE r.zone = $1 AND r.revision = z.revision),
                    (SELECT f.fingerprint FROM tidemark.fingerprint AS f
                        WHERE f.zone = $1 AND f.revision = z.revision AND f.shape = $2),
                    EXISTS (SELECT 1 FROM tidemark.outside AS o WHERE o.zone = $1), z.revision
                FROM tidemark.zone AS z WHERE z.zone = $1
                """,
                [zone, shape]
            ),
            PostgresStatement(
                "SELECT device, lap, revision FROM tidemark.lap WHERE zone = $1 AND device = ANY ($2::text[])",
                [zone, ids]
            ), PostgresStatement("\(KeptVerdict.sql) AND id = ANY ($2::text[])", [zone, ids]),
            PostgresStatement(
                """
                SELECT revision, device, body, chain, previous FROM (
                    SELECT r.revision, r.device, r.body, r.chain, nullif(p.chain, '') AS previous,
                        sum(octet_length(r.body)) OVER (ORDER BY r.revision) AS bytes
                    FROM tidemark.revision AS r LEFT JOIN tidemark.revision AS p
                        ON p.zone = r.zone AND p.revision = r.revision - 1
                    WHERE r.zone = $1 AND r.revision > $2::bigint
                        AND r.revision <= $2::bigint + \(Self.revisionsMax)
                ) AS b WHERE bytes <= \(Self.bytesMax) ORDER BY revision
                """,
                [zone, oldest]
            ),
            PostgresStatement(
                """
                SELECT revision, fingerprint FROM tidemark.fingerprint WHERE zone = $1
                    AND revision BETWEEN $2::bigint AND $2::bigint + \(Self.revisionsMax) AND shape = $3
                """,
                [zone, oldest, shape]
            ), PostgresStatement("SAVEPOINT plan"),
        ]
    }
}

/// What the zone's bookkeeping said when the transaction began.
struct GroupFacts {
    /// The ids that were asked about: of others nothing is known.
    var asked: Set<String> = []
    var laps: [String: Exchange] = [:]
    var verdicts: [String: Verdict] = [:]
    var recent: [Int64: PlanFacts.Recent] = [:]
    var fingerprints: [Int64: Fingerprint] = [:]
    /// The hash of the history up to the latest revision.
    var chain: (revision: Int64, hash: String)?
    /// Whether other programs had written nothing that no revision has.
    var isAbsorbed = false

    /// The results of ``GroupQuestion/statements(zone:shape:)``.
    init(_ question: GroupQuestion?, _ results: ArraySlice<PostgresRows>) {
        guard let question, let head = results.first, !head.isEmpty else { return }
        asked = question.ids
        let revision = head[0].integer(3) ?? 0
        chain = (revision, head[0][0] ?? "")
        fingerprints[revision] = head[0][1].flatMap(Fingerprint.init(hex:))
        isAbsorbed = !head[0].isTrue(2)
        take(Array(results.dropFirst()))
    }

    private mutating func take(_ results: [PostgresRows]) {
        for row in results[0].map({ $0 }) {
            laps[row.text(0)] = Exchange(lap: row.text(1), revision: row.integer(2) ?? 0)
        }
        for kept in results[1].map({ KeptVerdict($0) }) { verdicts[kept.id] = kept.verdict }
        for row in results[2].map({ $0 }) {
            let revision = row.integer(0) ?? 0
            let entry = RecentChangeSet(
                revision: revision,
                device: row[1],
                fingerprint: nil,
                chain: row.text(3),
                body: row.text(2)
            )
            // What is damaged is met by whoever is behind it, and dealt with there.
            guard row[4].map(entry.follows) ?? true else { continue }
            recent[revision] = PlanFacts.Recent(device: entry.device, body: entry.body)
        }
        for row in results[3].map({ $0 }) { fingerprints[row.integer(0) ?? 0] = row[1].flatMap(Fingerprint.init(hex:)) }
    }
}
