import Testing
import TidemarkHistory

/// The judge of secrecy: it finds foreign bytes in every form, and only those.
@Suite struct SecrecyCheckerTests {
    private static let anna = ReadersModel.Reader.person(0)
    private static let ben = ReadersModel.Reader.person(1)
    private static let canary = SecretFinder.canary(0xBEEF)
    private static let epoch = "0c9a5f0e-1111-4222-8333-444455556666"
    private static let zone = "z_" + String(repeating: "a7", count: 13)
    private static let token = "tmd_23456789_" + String(repeating: "z", count: 52)

    /// A zone of Anna with one secret.
    private static func checker(_ secret: String = canary) -> SecrecyChecker {
        var checker = SecrecyChecker()
        checker.model.makeZone(owner: 0, isShared: true)
        checker.know(secret, for: .readers(zone: 0))
        return checker
    }

    private static func violations(_ text: String, to reader: ReadersModel.Reader, secret: String = canary) -> Int {
        var checker = checker(secret)
        let moment = checker.begin(reader)
        checker.check(Array(text.utf8), since: moment, "GET /x")
        return checker.violations.count
    }

    @Test(arguments: [
        "⟦0:\(canary)⟧", #"{"text":"\u27e6\#(canary)"}"#, "%E2%9F%A6\(canary)%E2%9F%A7",
        #"{"$blob":"Y25yeTAwMDAwMDAwMDAwMGJlZWYx"}"#, "a\0\(canary)",
    ]) func `I7: a canary is found in each of its spellings, and is no secret from a reader`(text: String) {
        #expect(Self.violations(text, to: Self.ben) == 1)
        #expect(Self.violations(text, to: .anonymous) == 1)
        #expect(Self.violations(text, to: .stranger) == 1)
        #expect(Self.violations(text, to: Self.anna) == 0)
        #expect(Self.violations(String(text.dropLast(12)), to: Self.ben) == 0)
    }

    @Test(arguments: [epoch, zone, token]) func `I7: epochs, names of zones and tokens are found`(secret: String) {
        #expect(Self.violations("ETag: \"\(secret)-7-abc\"", to: Self.ben, secret: secret) == 1)
        #expect(Self.violations(#"{"zone":"\#(secret)"}"#, to: Self.anna, secret: secret) == 0)
    }

    @Test func `I7: what a member could read at the beginning or the end of a request is no foreign byte`() {
        for (first, then, foreign) in [
            (ReadersModel.Right.reader, nil, 0), (nil, .reader, 0), (nil, nil, 1),
        ] as [(ReadersModel.Right?, ReadersModel.Right?, Int)] {
            var checker = Self.checker()
            checker.model.set(first, of: 1, in: 0)
            let moment = checker.begin(Self.ben)
            checker.model.set(then, of: 1, in: 0)
            checker.check(Array(Self.canary.utf8), since: moment, "GET /x")
            #expect(checker.violations.count == foreign)
        }
        // What the sender told itself is no secret from it.
        var checker = Self.checker()
        let moment = checker.begin(Self.ben)
        checker.check(Array(Self.canary.utf8), since: moment, known: [Self.canary], "GET /x")
        #expect(checker.violations.isEmpty)
    }

    @Test func `probes count the foreign secrets of each answer`() {
        var checker = Self.checker()
        checker.know(SecretFinder.canary(1), for: .person(0))
        checker.know(SecretFinder.canary(2), for: .nobody)
        let toBen = checker.begin(Self.ben)
        checker.check([], since: toBen, "nothing")
        #expect(checker.probes == 3)
        let toAnna = checker.begin(Self.anna)
        checker.check([], since: toAnna, "nothing")
        #expect(checker.probes == 4)
        // A value that was refused is its author's, until it is accepted.
        checker.know(SecretFinder.canary(1), for: .readers(zone: 0))
        checker.model.set(.reader, of: 1, in: 0)
        let toReader = checker.begin(Self.ben)
        checker.check([], since: toReader, "nothing")
        #expect(checker.probes == 5)
    }

    @Test func `an invitation is good for its uses, until its end, and while its zone is there`() {
        var model = ReadersModel()
        let zone = model.makeZone(owner: 0, isShared: true)
        let invitation = model.invite(to: zone, as: .writer, uses: 1, until: 100)
        let late = model.accept(invitation, by: 1, at: 100)
        let first = model.accept(invitation, by: 1, at: 99)
        let again = model.accept(invitation, by: 1, at: 99)
        let other = model.accept(invitation, by: 2, at: 99)
        #expect(!late && first && again && !other)
        #expect(model.right(of: 1, in: zone) == .writer)
        let second = model.invite(to: zone, as: .reader, uses: 9, until: 100)
        model.revoke(invitation: second)
        let ended = model.accept(second, by: 2, at: 1)
        let third = model.invite(to: zone, as: .reader, uses: 9, until: 100)
        #expect(model.audiences(of: Self.ben).isSuperset(of: [.companions(0), .members(zone: zone)]))
        model.delete(zone)
        let gone = model.accept(third, by: 2, at: 1)
        #expect(!ended && !gone)
        #expect(model.audiences(of: Self.anna) == [.person(0), .companions(0), .named(zone: zone)])
    }
}
