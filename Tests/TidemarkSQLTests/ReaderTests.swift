import Testing
import TidemarkCore

@testable import TidemarkSQL

/// The records of bodies typed by hand.
@Suite struct ReaderTests {
    private func bench() throws -> TableBench {
        try TableBench(
            """
            CREATE TABLE teams (id INTEGER PRIMARY KEY, name, founded INTEGER);
            CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
            CREATE TABLE members (team INTEGER, person TEXT, role TEXT, PRIMARY KEY (team, person));
            CREATE TABLE parts (code BLOB PRIMARY KEY, label);
            """
        )
    }

    @Test func `creations, updates and deletions of several tables are read in order`() throws {
        let records = try bench().read(
            """
            [{"types":["teams","members"],
              "teams":{"create":[-10],"update":[7],"delete":[8],
                "attributes":{"-10":{"name":"Kiel"},"7":{"founded":1904,"revision":355}}},
              "members":{"create":[[-10,"Anna"]],"attributes":{"[-10,\\"Anna\\"]":{"role":"left"}}}},
             {"teams":{"update":[-10],"attributes":{"-10":{"founded":null}}}}]
            """
        )
        #expect(
            records == [
                #"0 create members [-10,"Anna"] role=text("left")"#, #"0 create teams -10 name=text("Kiel")"#,
                "0 delete teams 8", "0 update teams 7 since 355 founded=integer(1904)",
                "1 update teams -10 founded=null",
            ]
        )
    }

    @Test func `white space and the order of members do not matter`() throws {
        let tight =
            #"[{"id":"a","types":["teams"],"teams":{"create":[-1],"update":[2],"attributes":"#
            + #"{"-1":{"name":"x","founded":1},"2":{"revision":5,"name":"y"}}}}]"#
        let loose = """
            \t[ {\r\n "teams" : { "attributes" : { "2" : { "name" : "y" , "revision" : 5 } ,
                "-1" : { "founded" : 1 , "name" : "x" } } , "update" : [ 2 ] , "create" : [ -1 ] } ,
                "types" : [ "teams" ] , "id" : "a" } ]\n
            """
        let bench = try bench()
        #expect(try bench.read(tight) == bench.read(loose))
        #expect(try bench.read(tight).count == 2)
    }

    @Test(arguments: [
        (#""a\u0000b""#, "text 610062"), (#""\u0000""#, "text 00"), (#""\ud83d\ude00""#, "text F09F9880"),
        (#""\uD83D\uDE00\u00e9""#, "text F09F9880C3A9"), (#""\"\\\/\b\f\n\r\t""#, "text 225C2F080C0A0D09"),
        (#""\\u0041""#, "text 5C7530303431"), (#""😀""#, "text F09F9880"), (#""""#, "text "), ("null", "null "),
        ("true", "integer 31"), ("false", "integer 30"), ("1", "integer 31"), ("1.0", "real 312E30"),
        ("1e0", "real 312E30"), ("-0", "integer 30"),
        ("9223372036854775807", "integer 39323233333732303336383534373735383037"), (#"{"$blob":""}"#, "blob "),
        (#"{"$blob":"AP8="}"#, "blob 00FF"), (#"{"$text":"YQBi"}"#, "text 610062"),
        (#"{ "$text" : "/0E=" }"#, "text FF41"), (#"{"$real":"Infinity"}"#, "real 496E66"),
        (#"{"$real":"-Infinity"}"#, "real 2D496E66"),
    ]) func `a value is stored exactly`(json: String, stored: String) throws {
        let bench = try bench()
        try bench.apply(#"{"teams":{"create":[-1],"attributes":{"-1":{"name":\#(json)}}}}"#)
        #expect(try bench.rows("SELECT typeof(name) || ' ' || hex(CAST(name AS BLOB)) FROM teams") == [stored])
    }

    @Test func `an escape in one string does not affect the others`() throws {
        let records = try bench().read(
            #"[{"teams":{"create":[-1,-2],"attributes":{"-1":{"name":"\u00e9"},"-2":{"name":"\\"}}}}]"#
        )
        #expect(records == [#"0 create teams -1 name=text("é")"#, #"0 create teams -2 name=text("\\")"#])
    }

    @Test func `a name may contain escapes`() throws {
        let bench = try TableBench("CREATE TABLE größen (id INTEGER PRIMARY KEY, höhe, maß)")
        try bench.apply(
            #"{"gr\u00f6\u00dfen":{"create":[1],"attributes":{"1":{"h\u00f6he":1.5,"ma\u00df":"\u00e9"}}}}"#
        )
        #expect(try bench.rows("SELECT höhe, maß FROM größen") == ["1.5 é"])
    }

    @Test(arguments: ["Kiel", "Größe 🏐", "it's", " ", "", "a.b", "$", "7", "[1]", "null"])
    func `a text key may be any text`(key: String) throws {
        let json = JSONText.quote(key)
        let bench = try bench()
        try bench.apply(#"{"tags":{"create":[\#(json)],"attributes":{\#(json):{"colour":"red"}}}}"#)
        #expect(try bench.rows("SELECT name || '|' || colour FROM tags") == ["\(key)|red"])
    }

    @Test func `one key in two notations is one record`() throws {
        let records = try bench().read(
            #"[{"members":{"create":[[ 1 , "\u0041" ]],"attributes":{"[1,\"A\"]":{"role":"x"}}}}]"#
        )
        #expect(records == [#"0 create members [1,"A"] role=text("x")"#])
    }

    @Test func `a blob key is read`() throws {
        let records = try bench().read(
            #"[{"parts":{"create":[{"$blob":"AP8="}],"attributes":{"{\"$blob\":\"AP8=\"}":{"label":1}}}}]"#
        )
        #expect(records == [#"0 create parts {"$blob":"AP8="} label=integer(1)"#])
    }

    @Test func `UUIDs stored as blobs in a TEXT key stay blobs`() throws {
        // GRDB stores a `UUID` as sixteen bytes whatever the column's type says.
        let tables = "CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT)"
        let file = try CapturedFile(tables)
        try file.write("INSERT INTO tags VALUES (x'00ff', 'red')")
        let change = try #require(try file.changes().first)
        var text = ChangeSetText(file.schema)
        text.add(RecordID(table: 0, key: change.key), .create, members: #""colour":"red""#)
        let bench = try TableBench(tables)
        try bench.apply(text.text([]))
        #expect(try bench.rows("SELECT quote(name), colour FROM tags") == ["X'00FF' red"])
    }

    @Test func `a record without attributes gets the defaults`() throws {
        let records = try bench().read(#"[{"teams":{"create":[-1]}}]"#)
        #expect(records == ["0 create teams -1"])
    }

    @Test func `an empty body has no records`() throws {
        #expect(try bench().read("[]") == [])
        #expect(try bench().read("[{}]") == [])
        #expect(try bench().read(#"[{"types":["teams"],"teams":{}}]"#) == [])
    }
}
