import Foundation
import TidemarkCore

/// Converts values to texts that PostgreSQL casts to the column's type.
///
/// SQLite converts a written value to its column's affinity. This type does the same before writing: `5` for a TEXT
/// column is `'5'`, `'5'` for an INTEGER column is 5, 5 for a REAL column is 5.0. It refuses values that SQLite stores
/// unconverted, such as `'abc'` in an INTEGER column.
enum PostgresText {
    /// A value that its column cannot hold.
    struct Misfit: Error { let reason: String }

    /// The size of PostgreSQL's integers that are smaller than SQLite's.
    static let bits = ["smallint": 16, "integer": 32]

    static func refusal(_ reason: String, _ place: TidemarkError.Place) -> TidemarkError {
        TidemarkError(
            .invalidValue, "A value \(reason).",
            fix: "Write a value of the column's type; the server keeps it in PostgreSQL.", place: place)
    }

    /// Converts a value to text for a column of a kind; nil is NULL.
    static func convert(_ value: Value, _ kind: PostgresType) -> Result<String?, Misfit> {
        switch (value, kind) {
        case (.null, _): return .success(nil)
        case (.integer(let number), .number): return .success(String(number))
        case (.real(let number), .number): return .success(real(number))
        case (.integer(let number), .microseconds): return .success(interval(number))
        case (.real(let number), .microseconds):
            guard let whole = Int64(exactly: number) else {
                return .failure(Misfit(reason: "is a fraction in a column of microseconds"))
            }
            return .success(interval(whole))
        case (.integer, .interval), (.real, .interval): return .failure(bareInterval)
        case (.integer(let number), .hexadecimal), (.integer(let number), .text), (.integer(let number), .integer),
            (.integer(let number), .mixed):
            return .success(String(number))
        case (.integer(let number), .real): return .success(real(Double(number)))
        case (.integer(let number), .boolean) where number == 0 || number == 1: return .success(String(number))
        case (.real(let number), .integer), (.real(let number), .boolean):
            guard let whole = Int64(exactly: number), kind == .integer || [0, 1].contains(whole) else {
                return .failure(Misfit(reason: "is a fraction in a column of integers"))
            }
            return .success(String(whole))
        case (.real(let number), .real): return .success(real(number))
        case (.real(let number), .text): return .success(sqliteText(number))
        case (.real(let number), .mixed): return .success(numeric(number))
        case (.text(let text), _): return convert(text, kind)
        case (.rawText, _):
            return .failure(Misfit(reason: "is text with NUL or not in UTF-8, which PostgreSQL does not keep"))
        case (.blob(let bytes), .bytes):
            return .success("\\x" + bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined())
        case (.blob, _): return .failure(Misfit(reason: "is a blob in a column of another type"))
        default: return .failure(Misfit(reason: "is a number in a column of another type"))
        }
    }

    private static func convert(_ text: String, _ kind: PostgresType) -> Result<String?, Misfit> {
        switch kind {
        case .text, .address, .hexadecimal, .moment, .longMoment: return .success(text)
        case .number:
            let suffix = "::numeric"
            return .success(text.hasSuffix(suffix) ? String(text.dropLast(suffix.count)) : text)
        case .interval: return isNumber(text) ? .failure(bareInterval) : .success(text)
        case .microseconds:
            guard isNumber(text) else { return .success(text) }
            guard let whole = Int64(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
                return .failure(Misfit(reason: "is a fraction in a column of microseconds"))
            }
            return .success(interval(whole))
        case .mixed:
            guard isNumber(text) else { return convert(text, .text) }
            let trimmed = text.trimmingCharacters(in: .whitespacesAndNewlines)
            if let number = Int64(trimmed) { return .success(String(number)) }
            return .success(Double(trimmed).map(numeric) ?? text)
        case .integer, .boolean:
            guard let number = Int64(text), kind == .integer || [0, 1].contains(number) else {
                return .failure(Misfit(reason: "is text in a column of another type"))
            }
            return .success(String(number))
        case .real:
            guard let number = Double(text) else { return .failure(Misfit(reason: "is text in a column of numbers")) }
            return .success(real(number))
        case .bytes: return .failure(Misfit(reason: "is text in a column of blobs"))
        }
    }

    /// Whether SQLite reads a whole text as a number.
    private static func isNumber(_ text: String) -> Bool {
        let number = /[ \t\n\v\f\r]*[+\-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?[ \t\n\v\f\r]*/
        return text.wholeMatch(of: number) != nil
    }

    /// PostgreSQL would read any number as seconds, but programs mean microseconds or days as well.
    private static let bareInterval = Misfit(
        reason: "is a number without a unit in a column of intervals; write for instance '90 seconds'")

    /// An interval of microseconds in days and the rest, as Python's drivers write it.
    private static func interval(_ microseconds: Int64) -> String {
        let day: Int64 = 86_400_000_000
        let rest = (microseconds % day + day) % day
        let days = microseconds / day - (microseconds % day < 0 ? 1 : 0)
        return "\(days) days \(rest) microseconds"
    }

    /// A number in a column that may also hold texts: an integral one is an integer.
    private static func numeric(_ number: Double) -> String {
        if number.isInfinite { return number < 0 ? "-1e999" : "1e999" }
        let isSmall = abs(number) < 9_223_372_036_854_775_808
        return (isSmall ? Int64(exactly: number).map(String.init) : nil) ?? number.description
    }

    private static func real(_ number: Double) -> String {
        number.isInfinite ? (number < 0 ? "-Infinity" : "Infinity") : number.description
    }

    /// A number as SQLite writes it into a TEXT column: 15 digits, and always a point.
    static func sqliteText(_ number: Double) -> String {
        if number.isInfinite { return number < 0 ? "-Inf" : "Inf" }
        let text = String(format: "%.15g", number == 0 ? 0 : number)
        guard !text.contains(".") else { return text }
        let mantissa = text.prefix { $0 != "e" }
        return "\(mantissa).0\(text.dropFirst(mantissa.count))"
    }
}
