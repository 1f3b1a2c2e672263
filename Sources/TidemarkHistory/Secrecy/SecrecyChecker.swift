/// Checks every byte that reaches a sender for secrets that the sender may not read: invariant I7.
///
/// A secret is a text that occurs in one place only, for instance a canary in a value, or a zone's name. The
/// checker searches for all secrets in all bytes; a pair of bytes and a secret that the receiver may not read
/// counts as one probe.
package struct SecrecyChecker: Sendable {
    /// The audiences of a sender at the beginning of a request.
    package struct Moment: Sendable {
        let reader: ReadersModel.Reader
        let audiences: Set<ReadersModel.Audience>
        let event: Int
    }

    /// Who may read what.
    package var model = ReadersModel()
    /// The number of pairs of bytes and a foreign secret that were searched.
    package private(set) var probes = 0
    /// The number of bytes that were searched.
    package private(set) var bytes = 0
    /// The broken promises.
    package private(set) var violations: [Violation] = []

    private var secrets: [String: ReadersModel.Audience] = [:]
    private var counts: [ReadersModel.Audience: Int] = [:]
    private var events = 0

    /// Makes a checker that knows no secret.
    package init() {}

    // MARK: Secrets

    /// Tells who may read a text from now on.
    package mutating func know(_ secret: String, for audience: ReadersModel.Audience) {
        if let former = secrets.updateValue(audience, forKey: secret) { counts[former, default: 0] -= 1 }
        counts[audience, default: 0] += 1
    }

    /// Whether a text is a secret.
    package func isSecret(_ text: String) -> Bool { secrets[text] != nil }

    // MARK: Checks

    /// Begins a request: what the sender may read now, the answer may contain.
    package mutating func begin(_ reader: ReadersModel.Reader) -> Moment {
        events += 1
        return Moment(reader: reader, audiences: model.audiences(of: reader), event: events)
    }

    /// Searches an answer for secrets that the sender could not read at any moment of the request.
    ///
    /// - Parameters:
    ///   - bytes: The answer: status, headers and body, with its content unpacked.
    ///   - moment: The beginning of the request.
    ///   - known: What the sender told in the request, and so knows.
    ///   - what: The request, for a report.
    package mutating func check(_ bytes: [UInt8], since moment: Moment, known: Set<String> = [], _ what: String) {
        let audiences = moment.audiences.union(model.audiences(of: moment.reader))
        search(bytes, for: { !audiences.contains($0) }, known: known, since: moment, what)
    }

    /// Searches bytes that are for no user, such as log lines, for all secrets but `known`.
    package mutating func checkForAll(_ bytes: [UInt8], known: Set<String> = [], _ what: String) {
        let moment = begin(.stranger)
        search(bytes, for: { _ in true }, known: known, since: moment, what)
    }

    private mutating func search(
        _ bytes: [UInt8], for isForeign: (ReadersModel.Audience) -> Bool, known: Set<String>, since moment: Moment,
        _ what: String
    ) {
        probes += counts.reduce(0) { isForeign($1.key) ? $0 + $1.value : $0 }
        self.bytes += bytes.count
        for secret in SecretFinder.candidates(in: bytes).subtracting(known).sorted() {
            guard let audience = secrets[secret], isForeign(audience) else { continue }
            report(moment, what, expected: "nothing that only \(audience) may read", found: secret)
        }
    }

    /// Checks the status of an answer against the model's verdict about the request.
    package mutating func expect(
        _ isExpected: Bool, since moment: Moment, _ what: String, expected: String, found: String
    ) { if !isExpected { report(moment, what, expected: expected, found: found) } }

    private mutating func report(_ moment: Moment, _ what: String, expected: String, found: String) {
        violations.append(
            Violation(
                .noForeignRow, event: moment.event, actor: "\(moment.reader)", subject: what, expected: expected,
                found: found))
    }
}
