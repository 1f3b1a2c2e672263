import TidemarkCore

/// Builds pieces of SQL text.
///
/// Names come from an introspected schema, never from a message.
package enum SQLText {
    /// Returns a name in double quotes.
    ///
    /// A rowid stays without quotes: SQLite reads a quoted name that it does not know as a string, and a
    /// subquery may have no rowid.
    package static func name(_ name: some StringProtocol) -> String {
        SyncedTable.rowidNames.contains { $0 == name } ? String(name) : quote(name, by: "\"")
    }

    /// Returns a text literal in single quotes.
    package static func literal(_ text: some StringProtocol) -> String { quote(text, by: "'") }

    /// Quotes a text; it has a fast path, because almost no name contains a quote.
    private static func quote(_ text: some StringProtocol, by quote: Character) -> String {
        let isPlain = !text.utf8.contains(quote.asciiValue ?? 0)
        let inside =
            isPlain
            ? String(text)
            : text.split(separator: quote, omittingEmptySubsequences: false).joined(separator: "\(quote)\(quote)")
        return "\(quote)\(inside)\(quote)"
    }

    /// Returns names in double quotes, each after `prefix`, joined by commas.
    package static func names(_ names: [String], prefix: String = "") -> String {
        names.map { prefix + name($0) }.joined(separator: ", ")
    }

    /// Whether a statement has a keyword, given in upper case.
    ///
    /// Most statements lack its letters, so that no pattern has to take them apart.
    package static func hasKeyword(_ keyword: String, in sql: String) -> Bool {
        sql.uppercased().contains(keyword) && keywords(sql).contains(keyword)
    }

    /// Returns a statement in upper case without literals, quoted names and comments.
    package static func keywords(_ sql: String) -> String {
        let rest = /'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*.*?\*\//.dotMatchesNewlines()
        return sql.replacing(rest, with: " ").uppercased()
    }
}
