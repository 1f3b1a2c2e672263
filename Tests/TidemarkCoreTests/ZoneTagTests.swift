import Testing
import TidemarkCore

/// A device's state as an entity tag.
@Suite struct ZoneTagTests {
    private static let hash = "kY2fW0v9-3nBq_7d"

    @Test(arguments: [0, 7, 1_000_000, Int64.max])
    func `a tag parses to itself, also when a proxy has made it weak`(revision: Int64) {
        let tag = ZoneTag(revision: revision, hash: Self.hash)
        #expect(tag.entityTag == "\"\(revision)-\(Self.hash)\"")
        #expect(ZoneTag(entityTag: tag.entityTag) == tag)
        #expect(ZoneTag(entityTag: "W/\(tag.entityTag)") == tag)
    }

    @Test(arguments: [
        "", "*", "\"", "\"\"", "\"-\"", "7-\(hash)", "\"7-\(hash)", "\"-\(hash)\"", "\"7\(hash)\"", "\"-7-\(hash)\"",
        "\"+7-\(hash)\"", "\"7.0-\(hash)\"", "\"7 -\(hash)\"", "\"٧-\(hash)\"", "\"7-\(hash)x\"",
        "\"7-\(hash.dropLast())\"", "\"7-\(hash.dropLast())é\"", "\"7-\(hash.dropLast())+\"",
        "\"9223372036854775808-\(hash)\"", "\"7-\(hash)\", \"8-\(hash)\"", "w/\"7-\(hash)\"",
    ]) func `rule 21: malformed tags are rejected`(text: String) { #expect(ZoneTag(entityTag: text) == nil) }
}
