/// Pieces of SQL text.
///
/// Names come from an introspected schema, never from a message.
package enum SQLText {
    /// A name in double quotes.
    package static func name(_ name: some StringProtocol) -> String { quoted(name, by: "\"") }

    /// A text literal in single quotes.
    package static func literal(_ text: some StringProtocol) -> String { quoted(text, by: "'") }

    /// Nearly no name has a quote in it, and statements are made of many names.
    private static func quoted(_ text: some StringProtocol, by quote: Character) -> String {
        let isPlain = !text.utf8.contains(quote.asciiValue ?? 0)
        let inside =
            isPlain
            ? String(text)
            : text.split(separator: quote, omittingEmptySubsequences: false).joined(separator: "\(quote)\(quote)")
        return "\(quote)\(inside)\(quote)"
    }

    /// Names in double quotes, each behind an optional prefix, joined by commas.
    package static func names(_ names: [String], prefix: String = "") -> String {
        names.map { prefix + name($0) }.joined(separator: ", ")
    }

    /// A statement in upper case, without literals, quoted names and comments.
    package static func keywords(_ sql: String) -> String {
        let rest = /'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*.*?\*\//.dotMatchesNewlines()
        return sql.replacing(rest, with: " ").uppercased()
    }
}
