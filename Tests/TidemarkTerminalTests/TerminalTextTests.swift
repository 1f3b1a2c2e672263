import Testing
import TidemarkCore

@testable import TidemarkTerminal

/// Texts of other people on an operator's terminal.
@Suite struct TerminalTextTests {
    @Test func `a title cannot clear the screen, forge a line or turn the order of letters around`() {
        let shown = [
            "\u{1B}[2J\u{7}red": "\\u001b[2J\\u0007red", "red\nz_forged  shared": "red\\nz_forged  shared",
            "a\tb\rc": "a\\tb\\u000dc", "\u{202E}gnp.exe\u{202C}": "\\u202egnp.exe\\u202c",
            "\u{9B}31m\u{85}": "\\u009b31m\\u0085", "an\u{200B}na\u{FEFF}": "an\\u200bna\\ufeff",
            "\u{2066}x\u{2028}\u{200F}": "\\u2066x\\u2028\\u200f",
        ]
        for (text, expected) in shown { #expect(Terminal.shown(text) == expected) }
    }

    @Test func `names and titles in any language and with emoji stay as they are`() {
        for text in ["Zürich", "购物", "שלום", "👩‍👩‍👧 family", "café \u{301}", "a|b\\n", ""] {
            #expect(Terminal.shown(text) == text)
            #expect(!text.hasHiddenCharacters)
        }
    }

    @Test func `a text with line feeds of the program's own keeps them, and nothing else`() {
        let text = "one\ntwo\t\u{1B}[31m".showingHiddenCharacters(except: ["\n", "\t"])
        #expect(text == "one\ntwo\t\\u001b[31m")
    }
}
