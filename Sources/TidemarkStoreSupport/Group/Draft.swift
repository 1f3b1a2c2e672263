import TidemarkCore

/// Placeholders in an answer for change sets that are not written yet.
///
/// A placeholder is a kind and an index between two NUL bytes, which JSON never contains.
enum Draft {
    private enum Kind {
        static let all = UInt8(ascii: "a")
        static let own = UInt8(ascii: "o")
        static let ids = UInt8(ascii: "i")
        static let verdict = UInt8(ascii: "v")
    }

    /// The placeholder for a change set as other devices receive it.
    static func all(_ index: Int) -> String { text(Kind.all, index) }

    /// The placeholder for the author's copy.
    static func own(_ index: Int) -> String { text(Kind.own, index) }

    /// The placeholder for the author's copy with new ids only, if it was committed as sent.
    static func ids(_ index: Int) -> String { text(Kind.ids, index) }

    /// The placeholder for the author's copy with new ids only, even if the rows were changed.
    static func verdict(_ index: Int) -> String { text(Kind.verdict, index) }

    private static func text(_ kind: UInt8, _ index: Int) -> String {
        "\0\(Character(UnicodeScalar(kind)))\(index)\0"
    }

    private static let echoMember = Array(#""echo":"ids","#.utf8)
    private static let fingerprintMember = Array(#""fingerprint":""#.utf8)

    /// Replaces the placeholders of change sets.
    ///
    /// If one change set was not committed as sent, all of them come whole.
    static func fill(_ answer: [UInt8], _ bodies: [GroupPlan.Body]) throws -> [UInt8] {
        guard answer.contains(0) else { return answer }
        var parts = answer.split(separator: 0, omittingEmptySubsequences: false)
        let drafts = stride(from: 1, to: parts.count, by: 2).compactMap { index in
            Int(String(decoding: parts[index].dropFirst(), as: UTF8.self)).map {
                (index: index, kind: parts[index].first, body: bodies[$0])
            }
        }
        let isWhole = drafts.contains { $0.kind == Kind.ids && !$0.body.isAsSent }
        if isWhole, let member = parts[0].firstRange(of: echoMember) {
            parts[0] = parts[0][..<member.lowerBound] + parts[0][member.upperBound...]
        }
        for draft in drafts {
            let text =
                switch draft.kind {
                case Kind.ids where !isWhole: draft.body.ids
                case Kind.verdict: draft.body.ids
                case Kind.all: draft.body.all
                default: try authorsCopy(draft.body)
                }
            parts[draft.index] = ArraySlice(text.utf8)
        }
        return Array(parts.joined())
    }

    /// Renders the author's copy of a change set.
    private static func authorsCopy(_ body: GroupPlan.Body) throws -> String {
        try AuthorsCopy(whole: nil, ids: body.ids, logged: body.all).render()
    }

    /// Replaces the fingerprint, which comes before all change sets.
    static func fill(_ answer: [UInt8], fingerprint: Fingerprint) throws -> [UInt8] {
        guard let start = answer.firstRange(of: fingerprintMember)?.upperBound, answer.count >= start + 32 else {
            throw GroupNeedsSerialExecution()
        }
        return Array(answer[..<start]) + fingerprint.hex.utf8 + answer[(start + 32)...]
    }
}
