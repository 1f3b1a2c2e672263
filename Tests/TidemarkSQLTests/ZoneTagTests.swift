import Foundation
import Testing
import TidemarkCore
import TidemarkSQL

/// A device's state of a zone in a few bytes.
@Suite struct ZoneTagTests {
    private static let epoch = "bd69e421-cf17-4a73-88b3-c8b84a85688f"
    private static let schema = "8f3b23e393eead38e914f581e39e23b05d954fde23dc504707ed943763114083"
    private static let print = Fingerprint(hex: "026b4eb8bf6f4ae678c0d3d0f06edb75") ?? .none

    @Test func `the engine computes the protocol's worked example`() throws {
        let tag = ZoneTag(epoch: Self.epoch, schema: Self.schema, revision: 1, fingerprint: Self.print)
        #expect(tag.entityTag == "\"1-mnw9VyoJf3BwGh15\"")
        #expect(ZoneTag(entityTag: tag.entityTag) == tag)
        let page = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().appending(path: "Docs/PROTOCOL.md"), encoding: .utf8)
        for part in [tag.entityTag, Self.epoch, Self.schema, Self.print.hex] { #expect(page.contains(part)) }
    }

    @Test func `rule 17: every part of a device's state affects its tag`() {
        func tag(
            _ epoch: String = Self.epoch, _ schema: String = Self.schema, _ revision: Int64 = 1,
            _ fingerprint: Fingerprint = Self.print
        ) -> ZoneTag { ZoneTag(epoch: epoch, schema: schema, revision: revision, fingerprint: fingerprint) }
        var others = [tag("e"), tag(Self.epoch, "s"), tag(Self.epoch, Self.schema, 2)]
        for bit in 0..<64 {
            var high = Self.print
            var low = Self.print
            high.high ^= 1 << bit
            low.low ^= 1 << bit
            others += [high, low].map { tag(Self.epoch, Self.schema, 1, $0) }
        }
        #expect(Set(others.map(\.hash) + [tag().hash]).count == 132)
    }
}
