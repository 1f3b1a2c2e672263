/// The condition of a program's trigger that is false while rows arrive that contain its effect: in an answer on a
/// device (`applying` is 1), and in a device's change set at a server (2).
package enum TriggerGuard {
    /// The value of `applying` while a server writes a device's change set without guarded triggers.
    package static let suspended = 2
    private static let condition = "(SELECT applying FROM tidemark_state) = 0"

    package static func isGuarded(_ sql: String) -> Bool { sql.contains(condition) }
    /// Returns a `CREATE TRIGGER` statement with the guard; nil if the text has no place for it.
    package static func guarded(_ sql: String) -> String? { isGuarded(sql) ? sql : adding(condition, to: sql) }
    /// Returns a `CREATE TRIGGER` statement that never runs, which `IF NOT EXISTS` finds; nil without a place for it.
    package static func asleep(_ sql: String) -> String? { adding("0 /* runs at the server */", to: sql) }

    private static func adding(_ condition: String, to sql: String) -> String? {
        let words = topWords(sql)
        guard let begin = words.first(where: { $0.word == "BEGIN" }) else { return nil }
        guard let when = words.first(where: { $0.word == "WHEN" }), when.range.lowerBound < begin.range.lowerBound
        else { return sql[..<begin.range.lowerBound] + "WHEN \(condition) " + sql[begin.range.lowerBound...] }
        let own = sql[when.range.upperBound..<begin.range.lowerBound]
        // The line break ends a comment at the end of the program's own condition.
        return sql[..<when.range.upperBound] + " \(condition) AND (\(own)\n) " + sql[begin.range.lowerBound...]
    }

    /// Returns the unquoted words outside parentheses, without qualified names such as `NEW.begin`.
    private static func topWords(_ sql: String) -> [(word: String, range: Range<String.Index>)] {
        let token = /'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*.*?\*\/|[\p{L}_][\p{L}\p{N}_$]*|[().]/
            .dotMatchesNewlines()
        var depth = 0
        var previous = ""
        var words: [(String, Range<String.Index>)] = []
        for match in sql.matches(of: token) {
            let text = String(match.output)
            if text == "(" { depth += 1 }
            if text == ")" { depth -= 1 }
            if depth == 0, previous != ".", text.first?.isLetter == true {
                words.append((text.uppercased(), match.range))
            }
            previous = text
        }
        // The first three words are CREATE TRIGGER and the name, unless the name is quoted.
        return Array(words.dropFirst(3))
    }
}
