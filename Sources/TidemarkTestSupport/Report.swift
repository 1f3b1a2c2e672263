import Foundation

/// Prints the result of a long test in a line of its own: counts that show how much a pass means.
public enum Report {
    /// Writes a line to the standard output, at once.
    public static func line(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }
}
