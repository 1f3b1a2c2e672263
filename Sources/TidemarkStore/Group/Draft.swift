import TidemarkCore

/// What stands in an answer for what is not known before a plan is written: bytes that no JSON has.
enum Draft {
    /// Stands for the change set with a number as everybody receives it.
    static func all(_ index: Int) -> String { "\0a\(index)\0" }

    /// Stands for the author's copy.
    static func own(_ index: Int) -> String { "\0o\(index)\0" }

    /// Stands for the author's copy with ids alone.
    static func ids(_ index: Int) -> String { "\0i\(index)\0" }

    /// Stands for the author's copy with ids alone, whatever else the change set became.
    static func verdict(_ index: Int) -> String { "\0v\(index)\0" }

    private static let echoMember = Array(#""echo":"ids","#.utf8)
    private static let fingerprintMember = Array(#""fingerprint":""#.utf8)

    /// Puts in what the drafts stand for.
    ///
    /// Where ids alone do not say enough of one change set, all of them come whole.
    static func filled(_ answer: [UInt8], _ bodies: [GroupPlan.Body]) throws -> [UInt8] {
        guard answer.contains(0) else { return answer }
        var parts = answer.split(separator: 0, omittingEmptySubsequences: false)
        let drafts = stride(from: 1, to: parts.count, by: 2).compactMap { index in
            Int(String(decoding: parts[index].dropFirst(), as: UTF8.self)).map {
                (index: index, kind: parts[index].first, body: bodies[$0])
            }
        }
        let isWhole = drafts.contains { $0.kind == UInt8(ascii: "i") && !$0.body.isAsSent }
        if isWhole, let member = parts[0].firstRange(of: echoMember) {
            parts[0] = parts[0][..<member.lowerBound] + parts[0][member.upperBound...]
        }
        for draft in drafts {
            let text =
                switch draft.kind {
                case UInt8(ascii: "i") where !isWhole: draft.body.ids
                case UInt8(ascii: "v"): draft.body.ids
                case UInt8(ascii: "a"): draft.body.all
                default: try own(draft.body)
                }
            parts[draft.index] = ArraySlice(text.utf8)
        }
        return Array(parts.joined())
    }

    /// A change set as its author receives it.
    private static func own(_ body: GroupPlan.Body) throws -> String {
        try AuthorsCopy(whole: nil, ids: body.ids, logged: body.all).render()
    }

    /// Puts in the fingerprint, which stands before all change sets.
    static func filled(_ answer: [UInt8], fingerprint: Fingerprint) throws -> [UInt8] {
        guard let start = answer.firstRange(of: fingerprintMember)?.upperBound, answer.count >= start + 32 else {
            throw NotPlain()
        }
        return Array(answer[..<start]) + fingerprint.hex.utf8 + answer[(start + 32)...]
    }
}
