import Foundation

/// Names and ids that no other run has.
enum RandomID {
    static func uuid() -> UUID { UUID() }

    static func text() -> String { uuid().uuidString.lowercased() }
}
