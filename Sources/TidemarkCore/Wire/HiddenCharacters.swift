/// Characters that a terminal or a page obeys in place of showing them, or that nobody sees.
///
/// They clear a screen, begin a line, turn the order of letters around, or make two names look like one.
extension Unicode.Scalar {
    /// Whether this is a control character, a separator of lines, or a character that changes the direction of text or
    /// has no width.
    ///
    /// The joiners U+200C and U+200D are none: several scripts and emoji need them.
    package var isHidden: Bool {
        switch properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator: true
        default: Self.unseen.contains { $0.contains(value) }
        }
    }

    /// The marks, embeddings, overrides and isolates of Unicode's bidirectional algorithm; then the soft hyphen, the
    /// space without a width, the word joiner, the invisible operators and the byte order mark.
    private static let unseen: [ClosedRange<UInt32>] = [
        0x061C...0x061C, 0x200E...0x200F, 0x202A...0x202E, 0x2066...0x2069,
        0x00AD...0x00AD, 0x200B...0x200B, 0x2060...0x2064, 0xFEFF...0xFEFF,
    ]
}

extension String {
    /// Whether the text has a character that is obeyed in place of being shown.
    package var hasHiddenCharacters: Bool { unicodeScalars.contains(where: \.isHidden) }

    /// The text with `\u001b` in place of a hidden character, as in JSON, except the characters of `allowed`.
    package func showingHiddenCharacters(except allowed: Set<Unicode.Scalar> = []) -> String {
        guard unicodeScalars.contains(where: { $0.isHidden && !allowed.contains($0) }) else { return self }
        return unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case _ where !scalar.isHidden || allowed.contains(scalar): text.unicodeScalars.append(scalar)
            case "\n": text += "\\n"
            case "\t": text += "\\t"
            default:
                // No hidden character is beyond the first plane, so one escape suffices.
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
            }
        }
    }
}
