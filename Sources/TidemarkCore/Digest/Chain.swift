/// Computes the chain of a history to which a change set is added piece by piece.
package struct Chain {
    private var hash = RunningHash()

    /// Begins after a history with the chain `previous`.
    package init(after previous: String, revision: Int64) { take("\(previous)\n\(revision)\n") }

    /// Hashes the next piece of the text.
    package mutating func take(_ piece: String) { hash.take(Array(piece.utf8)) }

    /// Returns the chain after the last piece.
    package func text(device: String?) -> String {
        // JSON has no line feed and the device comes last, so each history has a unique text.
        var end = self
        end.take("\n\(device ?? "")")
        return end.hash.text
    }
}
