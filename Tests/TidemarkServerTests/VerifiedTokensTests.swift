import Testing
import TidemarkEngine

/// The memory of verified tokens.
@Suite struct VerifiedTokensTests {
    @Test func `a token is remembered until its end, and its text is not`() {
        var tokens = VerifiedTokens()
        let hash = VerifiedTokens.hash(of: "secret.secret.secret")
        #expect(tokens.user(hash, now: 0) == nil)
        tokens.remember(Caller.User(id: "a|1", expires: 1_000), for: hash)
        #expect(tokens.user(hash, now: 999)?.id == "a|1")
        #expect(tokens.user(hash, now: 1_000) == nil)
        #expect(tokens.user(VerifiedTokens.hash(of: "secret.secret.secreT"), now: 0) == nil)
        #expect(!"\(tokens)".contains("secret"))
    }

    @Test func `a token without an end is not remembered`() {
        var tokens = VerifiedTokens()
        let hash = VerifiedTokens.hash(of: "t")
        tokens.remember(Caller.User(id: "a|1"), for: hash)
        #expect(tokens.user(hash, now: 0) == nil)
        #expect(tokens.count == 0)
    }

    @Test func `the one whose last use is oldest makes room`() {
        var tokens = VerifiedTokens(countMax: 2)
        let hashes = ["a", "b", "c"].map(VerifiedTokens.hash)
        for (name, hash) in zip(["a", "b"], hashes) {
            tokens.remember(Caller.User(id: name, expires: 10), for: hash)
        }
        #expect(tokens.user(hashes[0], now: 0)?.id == "a")
        tokens.remember(Caller.User(id: "c", expires: 10), for: hashes[2])
        #expect(tokens.count == 2)
        #expect(hashes.map { tokens.user($0, now: 0)?.id } == ["a", nil, "c"])
    }

    @Test func `fifty thousand tokens take the room of ten thousand`() {
        var tokens = VerifiedTokens()
        for number in 0..<50_000 {
            let hash = VerifiedTokens.hash(of: "\(number)")
            tokens.remember(Caller.User(id: "u", expires: 10), for: hash)
            #expect(tokens.count <= VerifiedTokens.countMax)
        }
        #expect(tokens.count == VerifiedTokens.countMax)
        tokens.forgetAll()
        #expect(tokens.count == 0)
    }

    @Test func `the order of uses is that of a plain list`() {
        var generator = SystemRandomNumberGenerator()
        var recent = LeastRecent<Int, Int>(countMax: 5)
        var list: [(key: Int, value: Int)] = []
        for step in 0..<5_000 {
            let key = Int.random(in: 0..<9, using: &generator)
            let entry = list.first { $0.key == key }
            if Bool.random(using: &generator) {
                list.removeAll { $0.key == key }
                list.append((key, step))
                if list.count > 5 { list.removeFirst() }
                recent.set(step, for: key)
            } else {
                #expect(recent.use(key) == entry?.value)
                guard let entry else { continue }
                list.removeAll { $0.key == key }
                list.append(entry)
            }
            #expect(recent.count == list.count)
            for entry in list { #expect(recent.value(of: entry.key) == entry.value) }
        }
    }
}
