/// A number that may only fall.
///
/// A change that raises it fails. One that lowers it by more than the slack fails, too, until the budget follows, so
/// that no later change takes the gain back unseen.
struct Budget {
    /// The counted things, as they stand in a sentence.
    let name: String
    /// The most that it may be.
    let number: Int
    /// How to count again, or how to do with less.
    let cure: String

    /// The share of the number that may lie unused, in per cent.
    static let slackPercent = 2

    init(_ name: String, _ number: Int, cure: String) {
        self.name = name
        self.number = number
        self.cure = cure
    }

    /// Says how a count breaks the budget; nil if it keeps it.
    func complaint(about count: Int) -> String? {
        if count > number { return "\(name): \(count), at most \(number). \(cure)" }
        guard count < number - number * Self.slackPercent / 100 else { return nil }
        return "\(name): \(count), and \(number) is allowed: the budget may fall, write \(count)."
    }
}
