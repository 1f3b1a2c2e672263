import Foundation

enum Counted {
    /// Formats a number with its noun: `1 record`, `2 records`, `19,998 records`.
    static func text(_ count: Int, _ noun: String, plural: String? = nil) -> String {
        "\(number(count)) \(count == 1 ? noun : plural ?? noun + "s")"
    }

    /// Formats a number with a comma between thousands.
    static func number(_ count: Int) -> String { count.formatted(.number.locale(Locale(identifier: "en"))) }

    /// Lists the first names and the number of the others: `1, 2, 3 and 17 more`.
    static func list(_ names: [String], most: Int = 5) -> String {
        let firstNames = names.prefix(most).joined(separator: ", ")
        return names.count > most ? "\(firstNames) and \(number(names.count - most)) more" : firstNames
    }
}
