import Foundation
import TidemarkCore
import TidemarkEngine

/// The texts of users, tokens and times in the output of commands.
enum AccessTexts {
    /// Returns a day: `2026-11-30`.
    static func day(_ milliseconds: Int64) -> String { String(time(milliseconds).prefix(10)) }

    /// Returns a time in UTC, to the second: `2026-11-30T12:00:00Z`.
    static func time(_ milliseconds: Int64) -> String {
        Date(timeIntervalSince1970: Double(milliseconds) / 1_000).ISO8601Format()
    }

    /// Returns the end of a token: a time in UTC, or `never`.
    static func end(_ milliseconds: Int64?) -> String {
        milliseconds.flatMap { $0 == Tokens.never ? nil : time($0) } ?? "never"
    }

    static func author(_ user: String?) -> String { user ?? "operator" }
    /// Returns the name of a role; `none` for no rights.
    static func role(_ role: Role?) -> String { role?.rawValue ?? noRole }

    /// Parses the name of a role; nil for `none`; throws `invalidArgument` for another text.
    static func role(named text: String) throws(TidemarkError) -> Role? {
        if text == noRole { return nil }
        guard let role = Role(rawValue: text) else {
            let names = Role.allCases.reversed().map(\.rawValue) + [noRole]
            throw TidemarkError(
                .invalidArgument, "\(text) is not a role.", fix: "Choose \(names.joined(separator: ", ")).")
        }
        return role
    }

    private static let noRole = "none"

    /// Parses a day or a time in UTC, to milliseconds since 1970; throws `invalidArgument` for another text.
    static func milliseconds(_ text: String) throws(TidemarkError) -> Int64 {
        let whole = text.count == 10 ? "\(text)T00:00:00Z" : text
        do { return Int64(try Date(whole, strategy: .iso8601).timeIntervalSince1970 * 1_000) } catch {
            throw TidemarkError(
                .invalidArgument, "\(text) is not a date.",
                fix: "Write a day such as 2026-11-30, or a time in UTC such as 2026-11-30T12:00:00Z.")
        }
    }
}
