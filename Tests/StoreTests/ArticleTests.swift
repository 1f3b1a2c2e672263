import Foundation
import StoreTestSupport
import Testing
import TidemarkCore

/// The exchange that the protocol is based on, with the same JSON: a device at revision 1000, its
/// new records -10, -11 and -12.
@Suite(.serialized) struct ArticleTests {
    @Test(arguments: Store.all) func `A2 A3 A4: the article's request is answered with 321, 412, 413 and 1001`(
        store: Store
    ) async throws {
        let zone = try await ArticleZone.make(store)
        let answer = try await zone.sync(ArticleZone.request(maxRevision: 1000))
        #expect(Set(answer.object.keys) == ["maxRevision", "epoch", "schema", "more", "fingerprint", "changeSets"])
        #expect(answer.maxRevision == 1001)
        #expect(answer.more == false)
        #expect(answer.changeSets.count == 1)
        let set = try #require(answer.changeSets.first)
        #expect(set.isConflict == false)
        #expect(set.revision == 1001)
        #expect(set.types == ["screen_instances", "screen_instance_items"])
        #expect(set.ids("create", "screen_instances") == [321])
        #expect(set.ids("update", "screen_instances") == [])
        #expect(set.ids("delete", "screen_instances") == [])
        let instance = try #require(set.attributes("screen_instances", "321"))
        #expect(Set(instance.keys) == ["__oldId__", "revision", "screen_id", "date", "comment"])
        #expect(instance["__oldId__"] as? Int == -10)
        #expect(instance["revision"] as? Int == 1001)
        #expect(instance["screen_id"] as? Int == 749)
        #expect(instance["date"] as? String == "2014-02-01 13:15:23.487+01")
        #expect(instance["comment"] as? String == "")
        #expect(set.ids("create", "screen_instance_items") == [412, 413])
        for (key, old, value) in [("412", -11, 2), ("413", -12, 3)] {
            let item = try #require(set.attributes("screen_instance_items", key))
            #expect(item["__oldId__"] as? Int == old)
            #expect(item["revision"] as? Int == 1001)
            #expect(item["screen_instance_id"] as? Int == 321)
            #expect(item["numeric_value"] as? Int == value)
        }
    }

    @Test(arguments: Store.all) func `A5: a device at 995 gets revisions 996 to 1000 and its own 1001 in one answer`(
        store: Store
    )
        async throws
    {
        let zone = try await ArticleZone.make(store)
        let answer = try await zone.sync(ArticleZone.request(maxRevision: 995))
        #expect(answer.revisions == [996, 997, 998, 999, 1000, 1001])
        #expect(answer.maxRevision == 1001)
        let board = answer.changeSets[0].attributes("screens", "749")
        #expect(board?["name"] as? String == "Board 996")
        #expect(answer.changeSets.last?.ids("create", "screen_instances") == [321])
    }

    @Test(arguments: Store.all)
    func `A6 A7 A8: an edit of a record changed by another device is a conflict with current rows`(store: Store)
        async throws
    {
        let zone = try await ArticleZone.make(store)
        let answer = try await zone.sync(
            at: 1000,
            #"""
            {"types": ["screens", "screen_instances"],
             "screens": {"update": [749], "attributes": {"749": {"name": "mine", "revision": 995}}},
             "screen_instances": {"create": [-1], "attributes": {"-1": {"screen_id": 749}}}}
            """#
        )
        let set = try #require(answer.changeSets.first)
        #expect(set.isConflict == true)
        #expect(set.revision == nil)
        #expect(set.rules == ["changed"])
        #expect(set.reasons.first?["key"] as? Int == 749)
        #expect(set.reasons.first?["columns"] as? [String] == ["name"])
        let truth = try #require(set.attributes("screens", "749"))
        #expect(truth["name"] as? String == "Board 1000")
        #expect(truth["revision"] as? Int == 1000)
        // The whole set is rolled back, including the unrelated new record.
        #expect(set.ids("delete", "screen_instances") == [-1])
        #expect(answer.maxRevision == 1000)
        #expect(try await zone.column("SELECT count(*) FROM screen_instances") == ["0"])
        #expect(try await zone.column("SELECT name FROM screens") == ["Board 1000"])
    }

    @Test(arguments: Store.all) func `A8: the answer to a refused deletion contains the children and grandchildren`(
        store: Store
    )
        async throws
    {
        let zone = try await ArticleZone.make(store)
        _ = try await zone.sync(ArticleZone.request(maxRevision: 1000))
        // The device at 1000 has not seen any instance, so it deletes the board.
        let answer = try await zone.sync(at: 1000, #"{"types": ["screens"], "screens": {"delete": [749]}}"#)
        let set = try #require(answer.changeSets.last)
        #expect(answer.revisions == [1001, nil])
        #expect(set.isConflict == true)
        #expect(set.rules == ["referenced"])
        #expect(set.ids("update", "screens") == [749])
        #expect(set.ids("update", "screen_instances") == [321])
        #expect(set.ids("update", "screen_instance_items") == [412, 413])
        let item = set.attributes("screen_instance_items", "413")
        #expect(item?["screen_instance_id"] as? Int == 321)
        #expect(item?["numeric_value"] as? Int == 3)
        #expect(item?["revision"] as? Int == 1001)
    }
}

/// Temporary ids across change sets and requests of one device.
@Suite(.serialized) struct TemporaryIDTests {
    @Test(arguments: Store.all) func `A3 A4: a second change set of the request uses -10 of the first`(store: Store)
        async throws
    {
        let zone = try await ArticleZone.make(store)
        let answer = try await zone.sync(
            at: 1000,
            #"{"screen_instances": {"create": [-10], "attributes": {"-10": {"screen_id": 749}}}}"#,
            #"""
            {"screen_instance_items": {"create": [-11],
             "attributes": {"-11": {"screen_instance_id": -10, "numeric_value": 5}}}}
            """#,
            #"""
            {"screen_instances": {"update": [-10], "attributes": {"-10": {"comment": "late"}}}}
            """#
        )
        #expect(answer.revisions == [1001, 1002, 1003])
        let item = answer.changeSets[1].attributes("screen_instance_items", "412")
        #expect(item?["screen_instance_id"] as? Int == 321)
        #expect(answer.changeSets[2].ids("update", "screen_instances") == [321])
        let instance = answer.changeSets[2].attributes("screen_instances", "321")
        #expect(instance?["__oldId__"] as? Int == -10)
        #expect(instance?["comment"] as? String == "late")
    }

    @Test(arguments: Store.all) func `A4: a later request of the same device may still use -10 for id 321`(store: Store)
        async throws
    {
        let zone = try await ArticleZone.make(store)
        let device = #""device":"6f6d3a4e-0000-4000-8000-00000000000d""#
        let first = try await zone.sync(
            #"""
            {"maxRevision": 1000, \#(device), "changeSets": [{"screen_instances":
             {"create": [-10], "attributes": {"-10": {"screen_id": 749}}}}]}
            """#
        )
        #expect(first.changeSets.first?.ids("create", "screen_instances") == [321])
        let second = try await zone.sync(
            #"""
            {"maxRevision": 1001, \#(device), "changeSets": [
             {"screen_instances": {"update": [-10], "attributes": {"-10": {"comment": "x"}}},
              "screen_instance_items": {"create": [-11], "attributes": {"-11": {"screen_instance_id": -10}}}},
             {"screen_instance_items": {"delete": [-11]}}]}
            """#
        )
        #expect(second.revisions == [1002, 1003])
        #expect(second.changeSets[0].ids("update", "screen_instances") == [321])
        let item = second.changeSets[0].attributes("screen_instance_items", "412")
        #expect(item?["screen_instance_id"] as? Int == 321)
        #expect(second.changeSets[1].ids("delete", "screen_instance_items") == [412])
        #expect(try await zone.column("SELECT comment FROM screen_instances") == ["x"])
    }

    @Test(arguments: Store.all) func `A4: -10 of one device is unrelated to -10 of another device or table`(
        store: Store
    ) async throws {
        let zone = try await ArticleZone.make(store)
        let create = #"{"screen_instances": {"create": [-10], "attributes": {"-10": {"screen_id": 749}}}}"#
        let first = try await zone.sync(at: 1000, device: "one", create)
        let second = try await zone.sync(at: 1001, device: "two", create)
        #expect(first.changeSets.first?.ids("create", "screen_instances") == [321])
        #expect(second.changeSets.first?.ids("create", "screen_instances") == [322])
        let both = #"{"maxRevision":1002,"device":"NAME","changeSets":[{"screen_instances":{"delete":[-10]}}]}"#
        let stranger = try await zone.refusal(of: both.replacingOccurrences(of: "NAME", with: "three"))
        #expect(stranger?.code == .unknownTemporaryId)
        let own = try await zone.sync(both.replacingOccurrences(of: "NAME", with: "two"))
        #expect(own.changeSets.first?.ids("delete", "screen_instances") == [322])
    }

    @Test(arguments: Store.all) func `A4: other devices receive permanent ids only`(store: Store) async throws {
        let zone = try await ArticleZone.make(store)
        _ = try await zone.sync(ArticleZone.request(maxRevision: 1000))
        let other = try await zone.sync(at: 1000)
        let set = try #require(other.changeSets.first)
        #expect(set.ids("create", "screen_instance_items") == [412, 413])
        #expect(set.attributes("screen_instances", "321")?["__oldId__"] == nil)
        #expect(set.attributes("screen_instances", "321")?["revision"] as? Int == 1001)
    }
}
