import TidemarkCore

/// A request that must be refused whole, and the code of the refusal.
struct BadRequest: CustomStringConvertible, Sendable {
    let what: String
    let body: [UInt8]
    let code: ErrorCode

    init(_ what: String, _ body: String, _ code: ErrorCode) { self.init(what, bytes: Array(body.utf8), code) }

    init(_ what: String, bytes: [UInt8], _ code: ErrorCode) {
        self.what = what
        body = bytes
        self.code = code
    }

    /// A change set in an otherwise valid request.
    init(_ what: String, set: String, _ code: ErrorCode) {
        self.init(what, #"{"maxRevision":2,"device":"d","changeSets":[\#(set)]}"#, code)
    }

    /// A table's part in an otherwise valid request.
    init(_ what: String, _ table: String, _ part: String, _ code: ErrorCode) {
        self.init(what, set: #"{"\#(table)":\#(part)}"#, code)
    }

    /// A new screen with attributes.
    init(_ what: String, screen attributes: String, _ code: ErrorCode) {
        self.init(what, "screens", #"{"create":[-1],"attributes":{"-1":\#(attributes)}}"#, code)
    }

    var description: String { what }

    /// The zone for these requests, before screen 2 is deleted.
    static let schema = """
        CREATE TABLE screens (id INTEGER PRIMARY KEY, name TEXT NOT NULL,
            size INTEGER CHECK (size > 0), twice AS (size * 2));
        CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, screen_id INTEGER REFERENCES screens,
            label TEXT);
        CREATE TABLE tags (name TEXT PRIMARY KEY NOT NULL, note TEXT) STRICT;
        CREATE TABLE marks (screen_id INTEGER NOT NULL REFERENCES screens, tag TEXT NOT NULL, weight REAL,
            PRIMARY KEY (screen_id, tag)) WITHOUT ROWID;
        CREATE TABLE counts (id INTEGER PRIMARY KEY, n INTEGER NOT NULL) STRICT;
        CREATE TABLE pairs (a INTEGER, b TEXT, PRIMARY KEY (a, b));
        CREATE TABLE sizes (size REAL PRIMARY KEY);
        INSERT INTO screens (id, name, size) VALUES (1, 'Board', 3), (2, 'Wall', 4);
        INSERT INTO items VALUES (1, 1, 'a');
        INSERT INTO tags VALUES ('red', 1);
        INSERT INTO marks VALUES (1, 'red', 0.5);
        INSERT INTO counts VALUES (1, 1);
        """

    static let all: [BadRequest] = [bodies, envelopes, changeSets, tables, keys, values, rules].flatMap { $0 }
}

// MARK: - The bytes

extension BadRequest {
    private static let bodies: [BadRequest] = [
        BadRequest("no body", "", .malformedRequest), BadRequest("white space", " \n", .malformedRequest),
        BadRequest("an array", "[]", .malformedRequest),
        BadRequest("an array of requests", #"[{"maxRevision":0}]"#, .malformedRequest),
        BadRequest("a string", #""maxRevision""#, .malformedRequest), BadRequest("a number", "7", .malformedRequest),
        BadRequest("null", "null", .malformedRequest),
        BadRequest("a body that ends too early", #"{"maxRevision":0"#, .malformedRequest),
        BadRequest("something after the end", #"{"maxRevision":0} x"#, .malformedRequest),
        BadRequest("two requests", #"{"maxRevision":0}{"maxRevision":0}"#, .malformedRequest),
        BadRequest("a NUL and more after the end", "{\"maxRevision\":0}\0 x", .malformedRequest),
        BadRequest("a NUL in a name", "{\"max\0Revision\":0}", .malformedRequest),
        BadRequest("a NUL in white space", "{\0\"maxRevision\":0}", .malformedRequest),
        BadRequest("JSON5 names", "{maxRevision:0}", .malformedRequest),
        BadRequest("JSON5 quotes", "{'maxRevision':0}", .malformedRequest),
        BadRequest("a comment", #"{"maxRevision":0/* */}"#, .malformedRequest),
        BadRequest("a comma at the end", #"{"maxRevision":0,}"#, .malformedRequest),
        BadRequest("a hexadecimal number", #"{"maxRevision":0x10}"#, .malformedRequest),
        BadRequest("NaN", #"{"maxRevision":NaN}"#, .malformedRequest),
        BadRequest("a form", "maxRevision=0&changeSets=", .malformedRequest),
        BadRequest("HTML", "<html><body>login</body></html>", .malformedRequest),
        BadRequest("a byte order mark", "\u{FEFF}{\"maxRevision\":0}", .malformedRequest),
        BadRequest("UTF-16", bytes: [0xFF, 0xFE, 0x7B, 0x00, 0x7D, 0x00], .malformedRequest),
        BadRequest(
            "bytes that are not UTF-8", bytes: Array(#"{"maxRevision":0}"#.utf8) + [0xC3, 0x28], .malformedRequest),
        BadRequest("100,000 arrays in one another", String(repeating: "[", count: 100_000), .malformedRequest),
        BadRequest(
            "100,000 objects in a value",
            #"{"maxRevision":0,"changeSets":\#(String(repeating: #"{"a":"#, count: 100_000))"#, .malformedRequest),
    ]
}

// MARK: - The envelope

extension BadRequest {
    private static let envelopes: [BadRequest] = [
        BadRequest("no maxRevision", "{}", .malformedRequest),
        BadRequest("maxRevision null", #"{"maxRevision":null}"#, .malformedRequest),
        BadRequest("maxRevision -1", #"{"maxRevision":-1}"#, .malformedRequest),
        BadRequest("maxRevision 1.0", #"{"maxRevision":1.0}"#, .malformedRequest),
        BadRequest("maxRevision 1e2", #"{"maxRevision":1e2}"#, .malformedRequest),
        BadRequest("maxRevision as text", #"{"maxRevision":"1"}"#, .malformedRequest),
        BadRequest("maxRevision true", #"{"maxRevision":true}"#, .malformedRequest),
        BadRequest("maxRevision in an array", #"{"maxRevision":[1]}"#, .malformedRequest),
        BadRequest("maxRevision in an object", #"{"maxRevision":{}}"#, .malformedRequest),
        BadRequest("maxRevision beyond 64 bits", #"{"maxRevision":9223372036854775808}"#, .malformedRequest),
        BadRequest(
            "maxRevision of 400 digits", #"{"maxRevision":\#(String(repeating: "9", count: 400))}"#, .malformedRequest),
        BadRequest("a device with NUL", #"{"maxRevision":1,"device":"d\u0000e"}"#, .malformedRequest),
        BadRequest("maxRevision twice", #"{"maxRevision":0,"maxRevision":1}"#, .duplicateName),
        BadRequest("a revision ahead", #"{"maxRevision":3}"#, .revisionAhead),
        BadRequest("the last revision", #"{"maxRevision":9223372036854775807}"#, .revisionAhead),
        BadRequest("a revision before the adoption", #"{"maxRevision":0}"#, .snapshotRequired),
        BadRequest("another member", #"{"maxRevision":2,"rows":[]}"#, .malformedRequest),
        BadRequest("a member without a name", #"{"maxRevision":2,"":1}"#, .malformedRequest),
        BadRequest("another history", #"{"maxRevision":2,"epoch":"other"}"#, .epochMismatch),
        BadRequest("epoch 5", #"{"maxRevision":2,"epoch":5}"#, .malformedRequest),
        BadRequest("epoch in an array", #"{"maxRevision":2,"epoch":["a"]}"#, .malformedRequest),
        BadRequest("schema 1.5", #"{"maxRevision":2,"schema":1.5}"#, .malformedRequest),
        BadRequest("device 5", #"{"maxRevision":2,"device":5}"#, .malformedRequest),
        BadRequest("device true", #"{"maxRevision":2,"device":true}"#, .malformedRequest),
        BadRequest("device an object", #"{"maxRevision":2,"device":{}}"#, .malformedRequest),
        BadRequest("limit 0", #"{"maxRevision":2,"limit":0}"#, .malformedRequest),
        BadRequest("limit -1", #"{"maxRevision":2,"limit":-1}"#, .malformedRequest),
        BadRequest("limit 1.5", #"{"maxRevision":2,"limit":1.5}"#, .malformedRequest),
        BadRequest("limit as text", #"{"maxRevision":2,"limit":"1"}"#, .malformedRequest),
        BadRequest("limit beyond 64 bits", #"{"maxRevision":2,"limit":99999999999999999999}"#, .malformedRequest),
        BadRequest("wait 0", #"{"maxRevision":2,"wait":0}"#, .malformedRequest),
        BadRequest("wait 30000", #"{"maxRevision":2,"wait":30000,"changeSets":[]}"#, .malformedRequest),
        BadRequest("wait null", #"{"maxRevision":2,"wait":null}"#, .malformedRequest),
        BadRequest("lap 5", #"{"maxRevision":2,"lap":5}"#, .malformedRequest),
        BadRequest("lap null", #"{"maxRevision":2,"lap":null}"#, .malformedRequest),
        BadRequest("lap without next", #"{"maxRevision":2,"lap":{"last":null,"open":[]}}"#, .malformedRequest),
        BadRequest("lap next 5", #"{"maxRevision":2,"lap":{"last":null,"open":[],"next":5}}"#, .malformedRequest),
        BadRequest(
            "lap open of numbers",
            #"{"maxRevision":2,"lap":{"last":null,"open":[5],"next":"6f6d3a4e-0000-4000-8000-000000000001"}}"#,
            .malformedRequest), BadRequest("known {}", #"{"maxRevision":2,"known":{}}"#, .malformedRequest),
        BadRequest("known of text", #"{"maxRevision":2,"known":["a"]}"#, .malformedRequest),
        BadRequest("recall null", #"{"maxRevision":2,"recall":null}"#, .malformedRequest),
        BadRequest(
            "a recall beside change sets", #"{"maxRevision":2,"recall":[],"changeSets":[{}]}"#, .malformedRequest),
        BadRequest("changeSets {}", #"{"maxRevision":2,"changeSets":{}}"#, .malformedRequest),
        BadRequest("changeSets null", #"{"maxRevision":2,"changeSets":null}"#, .malformedRequest),
        BadRequest("changeSets text", #"{"maxRevision":2,"changeSets":"[]"}"#, .malformedRequest),
    ]
}

// MARK: - Change sets and their tables

extension BadRequest {
    private static let changeSets: [BadRequest] = [
        BadRequest("a null change set", set: "null", .malformedRequest),
        BadRequest("a number for a change set", set: "5", .malformedRequest),
        BadRequest("an array for a change set", set: "[]", .malformedRequest),
        BadRequest("text for a change set", set: #""{}""#, .malformedRequest),
        BadRequest("an id that is no UUID", set: #"{"id":"1"}"#, .malformedRequest),
        BadRequest("an id 5", set: #"{"id":5}"#, .malformedRequest),
        BadRequest("an id null", set: #"{"id":null}"#, .malformedRequest),
        BadRequest("an id in an array", set: #"{"id":["a"]}"#, .malformedRequest),
        BadRequest("after 5", set: #"{"after":5}"#, .malformedRequest),
        BadRequest("after [5]", set: #"{"after":[5]}"#, .malformedRequest),
        BadRequest("after [null]", set: #"{"after":[null]}"#, .malformedRequest),
        BadRequest("after [[]]", set: #"{"after":[[]]}"#, .malformedRequest),
        BadRequest("after an object", set: #"{"after":{}}"#, .malformedRequest),
        BadRequest(
            "after an unknown change set", set: #"{"after":"6f6d3a4e-0000-4000-8000-000000000001"}"#,
            .predecessorMissing), BadRequest("types 5", set: #"{"types":5}"#, .malformedRequest),
        BadRequest("types null", set: #"{"types":null}"#, .malformedRequest),
        BadRequest("types as text", set: #"{"types":"screens","screens":{}}"#, .malformedRequest),
        BadRequest("types an object", set: #"{"types":{"a":"screens"}}"#, .malformedRequest),
        BadRequest("types [5]", set: #"{"types":[5]}"#, .malformedRequest),
        BadRequest("types [null]", set: #"{"types":[null]}"#, .malformedRequest),
        BadRequest("types [[]]", set: #"{"types":[[]]}"#, .malformedRequest),
        BadRequest("types without the table", set: #"{"types":["screens"]}"#, .unknownTable),
        BadRequest("a table without its type", set: #"{"types":[],"screens":{}}"#, .malformedRequest),
        BadRequest("an unknown table", "walls", "{}", .unknownTable),
        BadRequest("a table in capitals", "SCREENS", "{}", .unknownTable),
        BadRequest("a table without a name", "", "{}", .unknownTable),
        BadRequest("the server's own table", "tidemark_zone", #"{"delete":[1]}"#, .unknownTable),
        BadRequest("SQLite's own table", "sqlite_master", #"{"delete":[1]}"#, .unknownTable),
        BadRequest("SQL for a table", #"screens\"; DROP TABLE screens; --"#, #"{"create":[-1]}"#, .unknownTable),
        BadRequest("an apostrophe in a table", "screens'", "{}", .unknownTable),
        BadRequest("an escaped NUL in a table", #"screens\u0000"#, "{}", .malformedRequest),
        BadRequest("half a surrogate pair in a table", #"screens\ud800"#, "{}", .unknownTable),
        BadRequest("a table twice", set: #"{"screens":{},"screens":{}}"#, .duplicateName),
        BadRequest("a table twice, once escaped", set: #"{"screens":{},"\u0073creens":{}}"#, .malformedRequest),
    ]

    private static let tables: [BadRequest] = [
        BadRequest("null for a table", "screens", "null", .malformedRequest),
        BadRequest("an array for a table", "screens", "[-1]", .malformedRequest),
        BadRequest("a number for a table", "screens", "1", .malformedRequest),
        BadRequest("another operation", "screens", #"{"upsert":[1]}"#, .malformedRequest),
        BadRequest("create null", "screens", #"{"create":null}"#, .malformedRequest),
        BadRequest("create 1", "screens", #"{"create":-1}"#, .malformedRequest),
        BadRequest("create {}", "screens", #"{"create":{}}"#, .malformedRequest),
        BadRequest("update text", "screens", #"{"update":"1"}"#, .malformedRequest),
        BadRequest("delete true", "screens", #"{"delete":true}"#, .malformedRequest),
        BadRequest("create twice", "screens", #"{"create":[],"create":[]}"#, .duplicateName),
        BadRequest("attributes []", "screens", #"{"attributes":[]}"#, .malformedRequest),
        BadRequest("attributes null", "screens", #"{"attributes":null}"#, .malformedRequest),
        BadRequest(
            "attributes of a record null", "screens", #"{"update":[1],"attributes":{"1":null}}"#, .malformedRequest),
        BadRequest("attributes of a record 5", "screens", #"{"update":[1],"attributes":{"1":5}}"#, .malformedRequest),
        BadRequest(
            "attributes of a record that is not listed", "screens", #"{"update":[],"attributes":{"1":{"name":"x"}}}"#,
            .malformedRequest),
        BadRequest(
            "attributes of a deleted record", "screens", #"{"delete":[1],"attributes":{"1":{"name":"x"}}}"#,
            .malformedRequest),
        BadRequest(
            "attributes of a record twice", "screens",
            #"{"update":[1],"attributes":{"1":{"name":"x"},"1":{"name":"y"}}}"#, .duplicateName),
        BadRequest(
            "attributes under a key with a space", "screens", #"{"update":[1],"attributes":{" 1":{"name":"x"}}}"#,
            .malformedRequest),
    ]
}

// MARK: - Keys

extension BadRequest {
    private static let keys: [BadRequest] = [
        BadRequest("an id as text", "screens", #"{"update":["1"]}"#, .invalidKey),
        BadRequest("an id 1.0", "screens", #"{"update":[1.0]}"#, .invalidKey),
        BadRequest("an id null", "screens", #"{"update":[null]}"#, .invalidKey),
        BadRequest("an id true", "screens", #"{"delete":[true]}"#, .invalidKey),
        BadRequest("an id in an array", "screens", #"{"delete":[[1]]}"#, .invalidKey),
        BadRequest("an id in an object", "screens", #"{"delete":[{"id":1}]}"#, .invalidKey),
        BadRequest("an id beyond 64 bits", "screens", #"{"update":[18446744073709551616]}"#, .invalidKey),
        BadRequest("a number for a text key", "tags", #"{"update":[5]}"#, .invalidKey),
        BadRequest("an object for a text key", "tags", #"{"update":[{"a":1}]}"#, .invalidKey),
        BadRequest("an escaped NUL in a text key", "tags", #"{"delete":["red\u0000"]}"#, .invalidKey),
        BadRequest("half a surrogate pair for a key", "tags", #"{"delete":["\ud800"]}"#, .invalidKey),
        BadRequest("null for a text key", "tags", #"{"create":[null]}"#, .invalidKey),
        BadRequest("a scalar for a composite key", "marks", #"{"update":[1]}"#, .invalidKey),
        BadRequest("half a composite key", "marks", #"{"update":[[1]]}"#, .invalidKey),
        BadRequest("too much composite key", "marks", #"{"update":[[1,"a",2]]}"#, .invalidKey),
        BadRequest("null in a composite key", "pairs", #"{"create":[[1,null]]}"#, .invalidKey),
        BadRequest("null for a REAL key", "sizes", #"{"create":[null]}"#, .invalidKey),
        BadRequest("an array for a REAL key", "sizes", #"{"create":[[1.5]]}"#, .invalidKey),
        BadRequest("a REAL key beyond range", "sizes", #"{"create":[1e999]}"#, .invalidKey),
        BadRequest("an array in a composite key", "marks", #"{"update":[[[1],"a"]]}"#, .invalidKey),
        BadRequest("an object in a composite key", "marks", #"{"update":[[1,{}]]}"#, .invalidKey),
        BadRequest(
            "a composite key that is no JSON", "marks", #"{"update":[[1,"red"]],"attributes":{"[1,red":{"weight":1}}}"#,
            .invalidKey),
        BadRequest(
            "an id that the new record gets", "screens",
            #"{"create":[-1],"update":[3],"attributes":{"-1":{"name":"x"},"3":{"name":"y"}}}"#, .invalidKey),
        BadRequest("an id twice", "screens", #"{"update":[1,1]}"#, .malformedRequest),
        BadRequest("an id in two lists", "screens", #"{"update":[1],"delete":[1]}"#, .malformedRequest),
        BadRequest(
            "a composite key twice, spelled in two ways", "marks", #"{"delete":[[1,"red"],[1,"r\u0065d"]]}"#,
            .malformedRequest),
        BadRequest(
            "a new record with an id of the reserved region", "screens",
            #"{"create":[4503599627370496],"attributes":{"4503599627370496":{"name":"x"}}}"#, .invalidKey),
        BadRequest(
            "an update by an unknown temporary id", "screens", #"{"update":[-9],"attributes":{"-9":{"name":"x"}}}"#,
            .unknownTemporaryId),
        BadRequest("a deletion by an unknown temporary id", "screens", #"{"delete":[-9]}"#, .unknownTemporaryId),
        BadRequest(
            "a reference to an unknown temporary id", "items", #"{"create":[-1],"attributes":{"-1":{"screen_id":-9}}}"#,
            .unknownTemporaryId),
        BadRequest(
            "a reference to another table's temporary id", "items",
            #"{"create":[-1],"attributes":{"-1":{"screen_id":-1}}}"#, .unknownTemporaryId),
    ]
}

// MARK: - Values

extension BadRequest {
    private static let values: [BadRequest] = [
        BadRequest("an unknown column", screen: #"{"name":"x","color":1}"#, .unknownColumn),
        BadRequest("a column in capitals", screen: #"{"NAME":"x"}"#, .unknownColumn),
        BadRequest("a generated column", screen: #"{"name":"x","twice":2}"#, .unknownColumn),
        BadRequest("the key as a column", screen: #"{"name":"x","id":4}"#, .unknownColumn),
        BadRequest("rowid as a column", screen: #"{"name":"x","rowid":4}"#, .unknownColumn),
        BadRequest("a quote in a column", screen: #"{"na\"me":"x"}"#, .unknownColumn),
        BadRequest("SQL for a column", screen: #"{"name = 'x' --":1}"#, .unknownColumn),
        BadRequest("an escaped NUL in a column", screen: #"{"name\u0000":"x"}"#, .malformedRequest),
        BadRequest("a column twice", screen: #"{"name":"x","name":"y"}"#, .duplicateName),
        BadRequest("a column twice, once escaped", screen: #"{"name":"x","n\u0061me":"y"}"#, .malformedRequest),
        BadRequest("an array for a value", screen: #"{"name":["x"]}"#, .invalidValue),
        BadRequest("an object for a value", screen: #"{"name":{}}"#, .invalidValue),
        BadRequest("an unknown tag", screen: #"{"name":{"$date":"x"}}"#, .invalidValue),
        BadRequest("a blob not in base64", screen: #"{"name":{"$blob":"%"}}"#, .invalidValue),
        BadRequest("a blob that is a number", screen: #"{"name":{"$blob":1}}"#, .invalidValue),
        BadRequest("two tags", screen: #"{"name":{"$blob":"","$text":""}}"#, .invalidValue),
        BadRequest("an integer beyond 64 bits", screen: #"{"name":"x","size":9223372036854775808}"#, .invalidValue),
        BadRequest(
            "an integer of 1,000 digits", screen: #"{"name":"x","size":\#(String(repeating: "8", count: 1_000))}"#,
            .invalidValue), BadRequest("a double beyond range", screen: #"{"name":"x","size":1e999}"#, .invalidValue),
        BadRequest("half a surrogate pair", screen: #"{"name":"\ud800"}"#, .invalidValue),
        BadRequest(
            "the revision as text", "screens", #"{"update":[1],"attributes":{"1":{"name":"x","revision":"2"}}}"#,
            .invalidValue),
        BadRequest(
            "the revision null", "screens", #"{"update":[1],"attributes":{"1":{"name":"x","revision":null}}}"#,
            .invalidValue),
        BadRequest(
            "the revision in an object", "screens", #"{"update":[1],"attributes":{"1":{"name":"x","revision":{}}}}"#,
            .invalidValue),
        BadRequest(
            "the revision beyond 64 bits", "screens",
            #"{"update":[1],"attributes":{"1":{"name":"x","revision":1e30}}}"#, .invalidValue),
        BadRequest(
            "the revision of 30 digits", "screens",
            #"{"update":[1],"attributes":{"1":{"name":"x","revision":\#(String(repeating: "1", count: 30))}}}"#,
            .invalidValue),
        BadRequest(
            "the revision negative", "screens", #"{"update":[1],"attributes":{"1":{"name":"x","revision":-1}}}"#,
            .invalidValue),
        BadRequest(
            "an old id, which only answers have", "screens",
            #"{"update":[1],"attributes":{"1":{"name":"x","__oldId__":"\",\"x\":"}}}"#, .unknownColumn),
    ]
}

// MARK: - Constraints of the tables

extension BadRequest {
    private static let rules: [BadRequest] = [
        BadRequest("no value for NOT NULL", screen: "{}", .constraintViolated),
        BadRequest("no attributes for NOT NULL", "screens", #"{"create":[-1]}"#, .constraintViolated),
        BadRequest("null for NOT NULL", screen: #"{"name":null}"#, .constraintViolated),
        BadRequest("what CHECK refuses", screen: #"{"name":"x","size":0}"#, .constraintViolated),
        BadRequest(
            "an update that CHECK refuses", "screens", #"{"update":[1],"attributes":{"1":{"size":-4,"revision":2}}}"#,
            .constraintViolated),
        BadRequest(
            "a reference to nothing", "items", #"{"create":[-1],"attributes":{"-1":{"screen_id":77}}}"#,
            .brokenReference),
        BadRequest(
            "an update to a reference to nothing", "items",
            #"{"update":[1],"attributes":{"1":{"screen_id":77,"revision":2}}}"#, .brokenReference),
        BadRequest(
            "a composite key of a reference to nothing", "marks",
            #"{"create":[[77,"x"]],"attributes":{"[77,\"x\"]":{"weight":1}}}"#, .brokenReference),
        BadRequest(
            "a good change set before a bad one",
            set: #"{"screens":{"create":[-1],"attributes":{"-1":{"name":"x"}}}},{"walls":{}}"#, .unknownTable),
        BadRequest(
            "a good change set before one that CHECK refuses",
            set: #"""
                {"id":"6f6d3a4e-0000-4000-8000-000000000002",
                 "screens":{"create":[-1],"attributes":{"-1":{"name":"x"}}}},
                {"screens":{"create":[-2],"attributes":{"-2":{"name":"y","size":-1}}}}
                """#,
            .constraintViolated
        ),
    ]
}
