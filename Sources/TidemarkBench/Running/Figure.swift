import Foundation

/// Another measured figure, by its name.
package struct Figure: Hashable, Sendable, Encodable {
    /// The units.
    package enum Unit: String, Hashable, Sendable, Encodable {
        case count
        case bytes
        case seconds
    }

    /// Its name.
    package let name: String
    /// Its value.
    package let value: Double
    /// Its unit.
    package let unit: Unit

    /// Makes a figure.
    init(_ name: String, value: Double, unit: Unit) {
        self.name = name
        self.value = value
        self.unit = unit
    }
}

extension Figure.Unit {
    /// A number of this unit, for people.
    func text(_ value: Double) -> String {
        switch self {
        case .count: value == value.rounded() ? "\(Int(value))" : String(format: "%.2f", value)
        case .bytes: Self.bytes(value)
        case .seconds: Self.time(value)
        }
    }

    private static func bytes(_ value: Double) -> String {
        switch abs(value) {
        case ..<1_024: String(format: "%.0f bytes", value)
        case ..<1_048_576: String(format: "%.1f KiB", value / 1_024)
        default: String(format: "%.1f MiB", value / 1_048_576)
        }
    }
    /// A time in the unit that suits it.
    static func time(_ seconds: Double) -> String {
        switch seconds {
        case ..<0.001: String(format: "%.0f µs", seconds * 1_000_000)
        case ..<1: String(format: "%.1f ms", seconds * 1_000)
        default: String(format: "%.2f s", seconds)
        }
    }
}
