import TidemarkHistory

/// Writes what clients without rows send and get into the history.
extension Recorder {
    /// Records that a client sends writes for the first time.
    mutating func offered(_ request: RestRequest, by client: RestClient) throws {
        let changes = RestReading.changes(request)
        let sights = changes.compactMap { change in client.looks[change.record].map { (change.record, $0.sight) } }
        try take(
            .offered(
                Offer(
                    client: client.name, id: request.headers["Idempotency-Key"] ?? "", changes: changes,
                    sights: Dictionary(uniqueKeysWithValues: sights),
                    seen: request.headers["Tidemark-Seen"].flatMap { Int64($0) }, answered: client.answered)))
    }

    /// Records that the server answers a request.
    mutating func answered(_ request: RestRequest, _ answer: RestAnswer, client: RestClient) throws {
        if request.isWrite {
            let id = request.headers["Idempotency-Key"] ?? ""
            try take(.answered(OfferAnswer(id: id, RestReading.outcome(answer, to: request))))
        } else if let sight = RestReading.sight(answer, to: request, of: client.name) {
            try take(.shown(sight))
        }
    }
}
