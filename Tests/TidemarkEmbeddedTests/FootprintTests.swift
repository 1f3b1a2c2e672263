import GRDB
import Testing
import TidemarkCore
import TidemarkSQL

@testable import TidemarkEngine

/// Which change sets may be judged by the same facts and written together.
@Suite struct FootprintTests {
    private static let tables = """
        CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT, crest TEXT UNIQUE);
        CREATE TABLE player (id INTEGER PRIMARY KEY, team INTEGER REFERENCES team ON DELETE CASCADE, name TEXT);
        """

    /// Whether the second of two change sets is separate from the first.
    private static func isSeparate(_ first: String, _ second: String) throws -> Bool {
        let schema = try DatabaseQueue().write { db in
            try db.execute(sql: tables)
            return try SchemaIntrospection(db).makeSchema()
        }
        return try Array("[{\(first)},{\(second)}]".utf8).withUnsafeBufferPointer { bytes in
            var reader = try JSONReader(bytes)
            var changes = ChangeSetReader(schema.wireNames)
            let sets = try changes.changeSets(&reader).map { PendingChangeSet($0, reader) }
            var footprint = Footprint(Footprint.Rules(schema))
            #expect(footprint.isSeparate(sets[0]))
            footprint.add(sets[0])
            return footprint.isSeparate(sets[1])
        }
    }

    private static let rename = #""team":{"update":[1],"attributes":{"1":{"name":"a"}}}"#

    @Test(arguments: [
        #""team":{"update":[2],"attributes":{"2":{"name":"b"}}}"#,
        #""team":{"create":[3],"attributes":{"3":{"crest":"new"}}}"#,
        #""player":{"create":[1],"attributes":{"1":{"team":1}}}"#,
    ]) func `changes of other records are separate, also references to the same parent`(other: String) throws {
        #expect(try Self.isSeparate(Self.rename, other))
    }

    @Test(arguments: [
        // One record twice.
        [rename, rename],
        // A unique value that one record leaves and another one takes, in both orders.
        [
            #""team":{"update":[1],"attributes":{"1":{"crest":"x"}}}"#,
            #""team":{"create":[2],"attributes":{"2":{"crest":"y"}}}"#,
        ],
        [
            #""team":{"create":[2],"attributes":{"2":{"crest":"y"}}}"#,
            #""team":{"update":[1],"attributes":{"1":{"crest":"x"}}}"#,
        ],
        // A reference to a record that is created later.
        [#""player":{"create":[1],"attributes":{"1":{"team":9}}}"#, #""team":{"create":[9]}"#],
    ]) func `a change set that reads or writes what an earlier one writes begins a run`(sets: [String]) throws {
        #expect(try Self.isSeparate(sets[0], sets[1]) == false)
    }
}
