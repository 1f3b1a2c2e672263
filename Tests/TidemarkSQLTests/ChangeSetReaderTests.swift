import Testing
import TidemarkCore

@testable import TidemarkSQL

/// Change sets in any layout are the same change sets.
@Suite struct ChangeSetReaderTests {
    private static let tables = """
        CREATE TABLE teams (id INTEGER PRIMARY KEY, name, points REAL);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
        CREATE TABLE members (team INTEGER, person TEXT, role TEXT, PRIMARY KEY (team, person));
        """

    private func sets(_ text: String) throws -> [(hash: String, records: [String])] {
        let schema = try TableBench(Self.tables).schema
        return try Array(text.utf8).withUnsafeBufferPointer { bytes in
            var reader = try JSONReader(bytes)
            var changes = ChangeSetReader(schema.wireNames)
            return try changes.changeSets(&reader).map { set in
                let records = try set.records.map { record in
                    let values = try record.values.map {
                        "\(set.column(at: $0, of: record).name)=\(try reader.value(of: set.values[$0].cell))"
                    }
                    let table = schema.wireNames.tables[record.table].name
                    return "\(record.operation) \(table) \(record.key) \(values.sorted())"
                }
                return (ContentHash.of(set, in: reader), records)
            }
        }
    }

    private static let tight =
        #"{"id":"a","teams":{"create":[-1,-2],"update":[7],"attributes":{"-1":{"name":"x","points":1.10},"#
        + #""7":{"revision":3,"name":"ünï \\ \" ]}"}}},"tags":{"delete":["t"]},"#
        + #""members":{"create":[[-1,"Anna"]],"attributes":{"[-1,\"Anna\"]":{"role":"left"}}}}"#

    @Test func `attributes may stand before the keys, and white space anywhere`() throws {
        let loose = """
            { "members" : { "attributes" : { "[-1, \\"Anna\\"]" : { "role" : "left" } } , "create" : [ [ -1 , "Anna" ] ] } ,
              "tags" : { "delete" : [ "t" ] } , "id" : "a" , "teams" : { "attributes" : {
                "7" : { "name" : "ünï \\\\ \\" ]}" , "revision" : 3 } , "-1" : { "points" : 1.10 , "name" : "x" } } ,
              "update" : [ 7 ] , "create" : [ -1 , -2 ] } }
            """
        let one = try sets("[\(Self.tight)]")
        #expect(one.map(\.records) == (try sets("[\(loose)]")).map(\.records))
        #expect(one[0].records.count == 5)
    }

    @Test func `two keys that Swift's strings find equal got each other's values`() throws {
        let one = "\u{e9}"
        let other = "e\u{301}"
        let values = #""attributes":{"\#(one)":{"colour":"1"},"\#(other)":{"colour":"2"}}"#
        let created = try sets(#"[{"tags":{"create":["\#(other)","\#(one)"],\#(values)}}]"#)[0].records
        let expected = [
            #"create tags "\#(other)" ["colour=text(\"2\")"]"#, #"create tags "\#(one)" ["colour=text(\"1\")"]"#,
        ]
        #expect(created.map { Array($0.utf8) }.sorted { $0.count > $1.count } == expected.map { Array($0.utf8) })
        let attributes = #""attributes":{"\#(one)":{"revision":5},"\#(other)":{"colour":"2"}}"#
        let renamed = try sets(#"[{"tags":{"create":["\#(other)"],"delete":["\#(one)"],\#(attributes)}}]"#)[0].records
        #expect(renamed.first.map { Array($0.utf8) } == Array(expected[0].utf8))
        #expect(throws: TidemarkError.self) {
            try sets(#"[{"tags":{"create":["\#(one)"],"attributes":{"\#(other)":{"colour":"2"}}}}]"#)
        }
    }

    @Test func `a change set has one hash, with white space between its values and without`() throws {
        let loose = Self.tight.replacing(":{", with: " :\n\t{ ").replacing("],", with: " ] ,")
        #expect(try sets("[{},\(loose)]").map(\.hash) == [ContentHash.of("{}"), ContentHash.of(Self.tight)])
    }

    @Test func `records that have other members than the one before are read by their names`() throws {
        let records = try sets(
            #"[{"teams":{"create":[1,2,3],"attributes":{"1":{"name":1,"points":2},"2":{"points":3},"3":{"points":4,"name":5}}}}]"#
        )[0].records
        #expect(
            records == [
                #"create teams 1 ["name=integer(1)", "points=integer(2)"]"#, #"create teams 2 ["points=integer(3)"]"#,
                #"create teams 3 ["name=integer(5)", "points=integer(4)"]"#,
            ]
        )
    }
}
