import GRDB
import Testing
import Tidemark

/// C2: parts of records join by the rules of `merge(record, override)`.
@Suite struct PartialTests {
    private struct Player: Codable, FetchableRecord, PersistableRecord, Hashable {
        static let name = RecordColumn<Player, String>("name")
        static let goals = RecordColumn<Player, Int>("goals")
        var id: Int64
        var name: String?
        var goals: Int?
    }

    /// The 18 cases: absent, NULL or a value on either side, with either flag.
    private static let cases: [(Presence<String?>, Presence<String?>, Bool, Presence<String?>)] = [
        (.absent, .absent, false, .absent), (.absent, .absent, true, .absent),
        (.absent, .present(nil), false, .present(nil)), (.absent, .present(nil), true, .present(nil)),
        (.absent, .present("w"), false, .present("w")), (.absent, .present("w"), true, .present("w")),
        (.present(nil), .absent, false, .present(nil)), (.present(nil), .absent, true, .present(nil)),
        (.present(nil), .present(nil), false, .present(nil)), (.present(nil), .present(nil), true, .present(nil)),
        (.present(nil), .present("w"), false, .present("w")), (.present(nil), .present("w"), true, .present("w")),
        (.present("v"), .absent, false, .present("v")), (.present("v"), .absent, true, .present("v")),
        (.present("v"), .present(nil), false, .present("v")), (.present("v"), .present(nil), true, .present(nil)),
        (.present("v"), .present("w"), false, .present("v")), (.present("v"), .present("w"), true, .present("w")),
    ]

    @Test(arguments: cases) func `C2: two parts join as the table says`(
        mine: Presence<String?>, other: Presence<String?>, overriding: Bool, joined: Presence<String?>
    ) {
        var left = Partial<Player>()
        left[Player.name] = mine
        var right = Partial<Player>()
        right[Player.name] = other
        #expect(left.merging(right, overriding: overriding)[Player.name] == joined)
    }

    @Test func `C2: each column is joined for itself, and the parts stay as they are`() {
        var stored = Partial<Player>()
        stored[Player.name] = .present("Anna")
        var typed = Partial<Player>()
        typed[Player.goals] = .present(3)
        let shown = stored.merging(typed, overriding: false)
        #expect(shown[Player.name] == .present("Anna"))
        #expect(shown[Player.goals] == .present(3))
        #expect(stored[Player.goals] == .absent)
        typed[Player.goals] = .absent
        #expect(typed == Partial())
    }

    @Test func `C2: a whole record becomes a part, and a part with all columns a record`() throws {
        let anna = Player(id: 1, name: "Anna", goals: nil)
        var part = try Partial(anna)
        #expect(part[Player.goals] == .present(nil))
        part[Player.goals] = .present(5)
        #expect(try part.record() == Player(id: 1, name: "Anna", goals: 5))
        #expect(throws: (any Error).self) { try Partial<Player>().record() }
    }
}
