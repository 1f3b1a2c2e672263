/// The tokens of a CREATE statement: equal for statements that differ in white space, comments or quotes of names only.
package struct StatementTokens: Equatable {
    private let texts: [String]
    private let ranges: [Range<String.Index>]
    private let sql: String

    package init(_ sql: String) {
        self.sql = sql
        var texts: [String] = []
        var ranges: [Range<String.Index>] = []
        var index = sql.startIndex
        while let (text, range) = Self.token(of: sql, from: index) {
            texts.append(text)
            ranges.append(range)
            index = range.upperBound
        }
        self.texts = texts
        self.ranges = ranges
    }

    package static func == (left: Self, right: Self) -> Bool { left.texts == right.texts }

    /// Returns the definitions of columns that `ALTER TABLE ADD COLUMN` added; nil when statements differ otherwise.
    ///
    /// SQLite writes them after the last column, before the constraints of the table.
    package static func addedColumns(from old: String, to new: String) -> [String]? {
        let old = StatementTokens(old)
        let new = StatementTokens(new)
        let head = zip(old.texts, new.texts).prefix { $0 == $1 }.count
        let tail = old.texts.count - head
        guard head > 0, tail > 0, new.texts.count > old.texts.count, old.texts[head...] == new.texts.suffix(tail)[...]
        else { return nil }
        var added = head..<new.texts.count - tail
        // The comma stands before the columns, or after them where the next constraint begins with one, too.
        if new.texts[added.lowerBound] == "," {
            added = added.lowerBound + 1..<added.upperBound
        } else if new.texts[head - 1] == ",", new.texts[added.upperBound - 1] == "," {
            added = added.lowerBound..<added.upperBound - 1
        } else {
            return nil
        }
        guard new.depth(at: added.lowerBound) == 1 else { return nil }
        let definitions = new.split(added)
        let areColumns = definitions.allSatisfy { definition in
            !definition.isEmpty && !constraintWords.contains(new.texts[definition.lowerBound].uppercased())
        }
        return areColumns ? definitions.map(new.source) : nil
    }

    /// A column or a constraint of a CREATE TABLE statement; equal parts may differ in white space or quotes.
    package struct Part: Hashable {
        /// The name of the column; for a constraint its first word.
        package let name: String
        /// The tokens after the name.
        package let rest: [String]
        package let isColumn: Bool
        /// The definition as it stands in the statement.
        package let text: String

        package static func == (left: Self, right: Self) -> Bool { left.name == right.name && left.rest == right.rest }

        package func hash(into hasher: inout Hasher) {
            hasher.combine(name)
            hasher.combine(rest)
        }
    }

    /// The columns and constraints of a CREATE TABLE statement.
    package var parts: [Part] {
        guard let open = texts.firstIndex(of: "("), let close = texts.lastIndex(of: ")"), open + 1 < close else {
            return []
        }
        return split(open + 1..<close).filter { !$0.isEmpty }.map { range in
            let name = texts[range.lowerBound]
            return Part(
                name: name, rest: Array(texts[range].dropFirst()),
                isColumn: !Self.constraintWords.contains(name.uppercased()), text: source(range))
        }
    }

    /// The words after the columns and constraints, such as `STRICT`.
    package var tail: String { texts.lastIndex(of: ")").map { texts[($0 + 1)...].joined(separator: " ") } ?? "" }

    /// Returns a name as the statement spells it: with its quotes, if it has any.
    package func spelling(of name: String) -> String? { texts.firstIndex(of: name).map { source($0..<$0 + 1) } }

    /// The expressions of the CHECK constraints of a CREATE TABLE statement, which SQLite does not list.
    package var checks: [String] {
        // A name in quotes may be a word, too.
        let words = ranges.map { sql[$0] }
        return words.indices.dropLast().filter { words[$0].uppercased() == "CHECK" && words[$0 + 1] == "(" }.map {
            place in
            var depth = 0
            let end = words[(place + 1)...].firstIndex { word in
                depth += word == "(" ? 1 : word == ")" ? -1 : 0
                return depth == 0
            }
            return source(place + 2..<(end ?? words.count))
        }
    }

    /// The words with which a constraint of a table begins.
    private static let constraintWords: Set<String> = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"]

    /// The number of parentheses that are open before a token.
    private func depth(at index: Int) -> Int {
        texts[..<index].count { $0 == "(" } - texts[..<index].count { $0 == ")" }
    }

    /// Divides tokens at the commas outside parentheses.
    private func split(_ range: Range<Int>) -> [Range<Int>] {
        var parts: [Range<Int>] = []
        var start = range.lowerBound
        var depth = 0
        for index in range {
            switch texts[index] {
            case "(": depth += 1
            case ")": depth -= 1
            case "," where depth == 0:
                parts.append(start..<index)
                start = index + 1
            default: break
            }
        }
        return parts + [start..<range.upperBound]
    }

    private func source(_ range: Range<Int>) -> String {
        String(sql[ranges[range.lowerBound].lowerBound..<ranges[range.upperBound - 1].upperBound])
    }

    private static let closing: [Character: Character] = ["'": "'", "\"": "\"", "`": "`", "[": "]"]

    /// Returns the next token and its place; nil at the end.
    private static func token(of sql: String, from start: String.Index) -> (String, Range<String.Index>)? {
        var index = start
        while index < sql.endIndex, let next = skip(sql, index) { index = next }
        guard index < sql.endIndex else { return nil }
        let first = sql[index]
        if let close = closing[first] {
            let end = endOfQuoted(sql, from: index, close: close)
            let text = String(sql[index..<end])
            // Only a name may stand without its quotes.
            guard first != "'", text.count > 1 else { return (text, index..<end) }
            let name = text.dropFirst().dropLast().replacing("\(close)\(close)", with: "\(close)")
            return (String(name), index..<end)
        }
        guard isWord(first) else { return (String(first), index..<sql.index(after: index)) }
        let end = sql[index...].firstIndex { !isWord($0) } ?? sql.endIndex
        return (String(sql[index..<end]), index..<end)
    }

    /// Returns the place after white space or a comment; nil where none begins.
    private static func skip(_ sql: String, _ index: String.Index) -> String.Index? {
        let rest = sql[index...]
        if rest.first?.isWhitespace == true { return sql.index(after: index) }
        if rest.hasPrefix("--") { return rest.firstIndex(where: \.isNewline) ?? sql.endIndex }
        if rest.hasPrefix("/*") { return rest.dropFirst(2).firstRange(of: "*/")?.upperBound ?? sql.endIndex }
        return nil
    }

    private static func endOfQuoted(_ sql: String, from start: String.Index, close: Character) -> String.Index {
        var index = sql.index(after: start)
        while let end = sql[index...].firstIndex(of: close) {
            let next = sql.index(after: end)
            guard close != "]", next < sql.endIndex, sql[next] == close else { return next }
            index = sql.index(after: next)
        }
        return sql.endIndex
    }

    private static func isWord(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || character == "_" || character == "$" || !character.isASCII
    }
}
