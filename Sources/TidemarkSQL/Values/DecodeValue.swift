import Foundation
package import GRDB
package import TidemarkCore

extension Value {
    /// The value as GRDB reads it from a row: text to its first NUL, with replacement characters for other than UTF-8.
    var databaseValue: DatabaseValue {
        switch self {
        case .null: .null
        case .integer(let value): value.databaseValue
        case .real(let value): value.databaseValue
        case .text(let text): text.databaseValue
        case .rawText(let bytes): String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self).databaseValue
        case .blob(let bytes): Data(bytes).databaseValue
        }
    }
}

extension Value {
    /// Creates the value that GRDB has read from a row, or that an app wants to write.
    package init(_ value: DatabaseValue) {
        switch value.storage {
        case .null: self = .null
        case .int64(let number): self = .integer(number)
        case .double(let number): self = .real(number)
        case .string(let text): self = Value(text: Array(text.utf8))
        case .blob(let data): self = .blob(Array(data))
        }
    }
}
