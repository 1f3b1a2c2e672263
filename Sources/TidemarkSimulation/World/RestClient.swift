import Foundation
import TidemarkHistory

/// A client without rows: a script or a web page that uses the REST interface.
///
/// It keeps what it has seen of some records for a while, and a copy of all rows, made from a list and the feed after
/// it. It has one request at a time on its way, and repeats it until there is an answer.
final class RestClient {
    /// A record that the client knows.
    struct Look {
        /// The tag to send.
        var tag: String
        /// The columns when the client last saw the record whole.
        let cells: Cells
        /// The revision of that.
        let sight: Int64
    }

    /// A request that waits for its answer.
    struct Exchange {
        let number: Int
        /// How often it was sent.
        var attempts = 1
        let request: RestRequest
        /// Whether the answer goes into the client's copy.
        let isForMirror: Bool
    }

    let number: Int
    private let virtual: VirtualEnvironment
    var looks: [RecordID: Look] = [:]
    var mirror = Mirror()
    var exchange: Exchange?
    /// The ids of its change sets that have an answer.
    var answered: Set<String> = []

    init(number: Int, seed: UInt64) {
        self.number = number
        virtual = VirtualEnvironment(seed: seed)
    }

    var name: String { "client \(number)" }

    /// A new `Idempotency-Key`.
    func newID() -> String { virtual.newID().uuidString.lowercased() }

    /// Takes in the answer to its request.
    func take(_ answer: RestAnswer, to exchange: Exchange) {
        let request = exchange.request
        if request.isWrite {
            takeVerdict(answer, to: request)
        } else if exchange.isForMirror {
            mirror.take(answer)
        } else if let sight = RestReading.sight(answer, to: request, of: name) {
            for shown in sight.records { keep(shown) }
            for record in sight.absent { looks[record] = nil }
        }
    }

    private func takeVerdict(_ answer: RestAnswer, to request: RestRequest) {
        answered.insert(request.headers["Idempotency-Key"] ?? "")
        switch RestReading.outcome(answer, to: request) {
        case .refused(let refusal):
            if let current = refusal.current {
                keep(current)
            } else if let place = refusal.place {
                looks[place] = nil
            }
        case .done(let records):
            for (change, shown) in zip(RestReading.changes(request), records) {
                guard let shown else {
                    looks[change.record] = nil
                    continue
                }
                keep(shown)
            }
        }
    }

    private func keep(_ shown: ShownRecord) {
        guard let revision = shown.revision else {
            looks[shown.record] = nil
            return
        }
        let tag = RestReading.tag(revision)
        if let cells = shown.cells {
            looks[shown.record] = Look(tag: tag, cells: cells, sight: revision)
        } else {
            looks[shown.record]?.tag = tag
        }
    }
}

/// A copy of all rows: the tables are listed page by page, and then the client follows the feed from the first page's
/// revision.
struct Mirror {
    private(set) var rows: [RecordID: Cells] = [:]
    /// The place of the feed; nil before the first page.
    private var since: String?
    private var unlisted = ZoneSchema.tables.map(\.name)
    /// The cursor within the first of them.
    private var cursor: String?
    /// The revision that the copy has; nil while more follows.
    private(set) var revision: Int64?

    /// The next request, for a page of so many records.
    ///
    /// Some tables are listed by a column that changes.
    func request(limit: Int) -> RestRequest {
        var query = [(name: "limit", value: "\(limit)")]
        guard let table = unlisted.first else {
            if let since { query.append(("since", since)) }
            return RestRequest(method: "GET", path: "changes", query: query)
        }
        if let order = Self.orders[table] { query.append(("order", order)) }
        if let cursor { query.append(("after", cursor)) }
        return RestRequest(method: "GET", path: "tables/\(table)", query: query)
    }

    private static let orders = ["team": "rank.desc", "player": "name", "tag": "title.desc"]

    /// Takes in a page of a list or of the feed.
    mutating func take(_ answer: RestAnswer) {
        let page = RestReading.Page(answer)
        if let table = unlisted.first {
            since = since ?? page.since
            for shown in RestReading.records(page.members["records"], of: table) { rows[shown.record] = shown.cells }
            cursor = page.next
            if cursor == nil { unlisted.removeFirst() }
            return
        }
        for change in RestReading.feed(page.members["changes"]) { rows[change.record] = change.cells }
        since = page.next
        revision = page.hasMore ? nil : page.revision
    }
}
