import Foundation
import StoreTestSupport
import Testing
import Tidemark
import TidemarkCore
import TidemarkPostgres
import TidemarkTestSupport

/// Rule 38: psql alters tables of a served database while devices sync: nodes follow, old apps
/// continue, and no app erases columns that it does not know.
@Suite(.serialized) struct AlteredTableTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL, done INTEGER DEFAULT 0);
        CREATE TABLE tags (name TEXT PRIMARY KEY, colour TEXT);
        """
    private static let seed = """
        INSERT INTO notes (text) VALUES ('milk'), ('bread'), ('salt');
        INSERT INTO tags VALUES ('home', 'red'), ('work', 'blue')
        """
    /// The statements for PostgreSQL, and those of the app's migration.
    private static let grow = """
        ALTER TABLE notes ADD COLUMN stars bigint DEFAULT 3;
        ALTER TABLE tags ADD COLUMN icon bytea;
        """
    private static let migrate = """
        ALTER TABLE notes ADD COLUMN stars INTEGER DEFAULT 3;
        ALTER TABLE tags ADD COLUMN icon BLOB;
        """

    private static func cluster() async throws -> PostgresCluster {
        try await PostgresCluster(schema: schema, seed: seed)
    }

    @Test func `C3 case 54: an old app gets the values of columns added by psql at its migration`() async throws {
        let cluster = try await Self.cluster()
        var anna = try await cluster.device("anna")
        try await cluster.psql(
            Self.grow + """
                UPDATE notes SET stars = 5 WHERE id = 2;
                UPDATE tags SET icon = '\\x00ff' WHERE name = 'work'
                """
        )
        let ben = try await cluster.device("ben")
        try await ben.write("INSERT INTO notes (text, stars) VALUES ('rake', NULL)")
        try await ben.write("UPDATE notes SET stars = 1, text = 'oat milk' WHERE id = 1")
        try await ben.engine.sync()
        try await anna.engine.sync()
        #expect(
            try await anna.rows("SELECT id, text FROM notes ORDER BY id") == [
                "1|oat milk", "2|bread", "3|salt", "4|rake",
            ]
        )
        try anna.writeOutside(Self.migrate)
        anna = try await anna.reopened()
        #expect(try await anna.rows("SELECT id, stars FROM notes ORDER BY id") == ["1|1", "2|5", "3|3", "4|"])
        #expect(try await anna.rows("SELECT hex(icon) FROM tags WHERE name = 'work'") == ["00FF"])
        try await cluster.converge(anna, ben)
        await cluster.close()
    }

    @Test func `C3 case 55: an old app that replaces whole rows keeps columns that it does not know`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.psql(Self.grow + "UPDATE notes SET stars = 5; UPDATE tags SET icon = '\\x01'")
        try await cluster.settle([anna, ben])
        try anna.writeOutside("INSERT OR REPLACE INTO notes VALUES (1, 'oat milk', 1)")
        try await anna.write("DELETE FROM tags WHERE name = 'home'; INSERT INTO tags VALUES ('home', 'green')")
        try await anna.write("UPDATE notes SET text = text || '!' WHERE id = 2")
        try await cluster.settle([anna, ben])
        let notes = try await cluster.rows("SELECT id, text, done, stars FROM notes ORDER BY id")
        #expect(notes == ["1|oat milk|1|5", "2|bread!|0|5", "3|salt|0|5"])
        let tags = try await cluster.rows("SELECT name, colour, encode(icon, 'hex') FROM tags ORDER BY 1")
        #expect(tags == ["home|green|01", "work|blue|01"])
        await cluster.close()
    }

    @Test func `C3: a table created by psql is synced with its rows`() async throws {
        let cluster = try await Self.cluster()
        var anna = try await cluster.device("anna")
        try await cluster.psql(
            """
            CREATE TABLE labels (zone text COLLATE "C" NOT NULL DEFAULT 'main', note_id bigint NOT NULL,
                tag text NOT NULL, weight double precision, PRIMARY KEY (zone, note_id, tag),
                FOREIGN KEY (zone, note_id) REFERENCES notes (zone, id) ON DELETE CASCADE,
                FOREIGN KEY (zone, tag) REFERENCES tags (zone, name));
            INSERT INTO labels (note_id, tag, weight) VALUES (1, 'home', 0.1), (2, 'work', 1e300);
            CREATE TABLE scratch (line text)
            """
        )
        let ben = try await cluster.device("ben")
        #expect(try await ben.rows("SELECT weight FROM labels ORDER BY 1") == ["0.1", "1e+300"])
        try await ben.write("UPDATE labels SET weight = 2.5 WHERE note_id = 2")
        try await ben.engine.sync()
        try await anna.engine.sync()
        // The old app has no labels to cascade to; the server has.
        try await anna.write("DELETE FROM notes WHERE id = 1")
        try await cluster.settle([anna, ben])
        let labels = try await cluster.rows("SELECT tag, weight FROM labels")
        #expect(labels == ["work|2.5"])
        try anna.writeOutside(
            """
            CREATE TABLE labels (note_id INTEGER REFERENCES notes ON DELETE CASCADE,
                tag TEXT REFERENCES tags, weight REAL, PRIMARY KEY (note_id, tag))
            """
        )
        anna = try await anna.reopened()
        try await cluster.converge(anna, ben)
        // A table whose key does not begin with the zone is ignored.
        #expect(cluster.store.schema.byName["scratch"] == nil)
        await cluster.close()
    }

    @Test func `F5 C3: adopted tables can gain columns of every kind, and a table`() async throws {
        let cluster = try await PostgresCluster(
            adopting: """
                CREATE TABLE team (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, name text);
                INSERT INTO team (name) VALUES ('Kiel'), ('Ulm')
                """
        )
        let anna = try await cluster.device("anna")
        try await cluster.psql(
            """
            CREATE TYPE mood AS ENUM ('calm', 'merry');
            ALTER TABLE team ADD COLUMN key uuid DEFAULT gen_random_uuid();
            ALTER TABLE team ADD COLUMN fee numeric(10, 2) DEFAULT 1.5, ADD COLUMN mood mood DEFAULT 'calm',
                ADD COLUMN made timestamptz DEFAULT now(), ADD COLUMN tags text[] DEFAULT '{a,b}', ADD COLUMN ok boolean NOT NULL DEFAULT true;
            CREATE TABLE coach (id serial PRIMARY KEY, team_id bigint REFERENCES team, name text UNIQUE);
            INSERT INTO coach (team_id, name) VALUES (1, 'Eva'); UPDATE team SET mood = 'merry' WHERE id = 2
            """
        )
        let ben = try await cluster.device("ben")
        let fill = cluster.store.schema.history.fills["team", default: [:]]
        #expect(fill["fee"] == "1.5" && fill["mood"] == #""calm""# && fill["ok"] == "1")
        #expect(fill["made"]?.contains("+00") == true, "rows got the moment of the ALTER TABLE")
        #expect(fill["key"] == "null", "each row got a value of its own")
        #expect(try await ben.rows("SELECT fee, mood, ok FROM team") == ["1.5|calm|1", "1.5|merry|1"])
        try await ben.write("INSERT INTO coach (team_id, name) VALUES (2, 'Kim')")
        try await ben.engine.sync()
        #expect(try await cluster.rows("SELECT id, name FROM coach ORDER BY id") == ["1|Eva", "2|Kim"])
        try await anna.write("INSERT INTO team (name) VALUES ('Lemgo')")
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT fee, mood, ok FROM team WHERE name = 'Lemgo'") == ["1.50|calm|true"])
        try await cluster.converge(ben)
        await cluster.close()
    }

    @Test func `rule 6: rows written between ALTER TABLE and the next sync are complete`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        let program = try await cluster.database.connect()
        try await program.execute("UPDATE notes SET text = 'before' WHERE id = 1")
        try await program.execute(Self.grow)
        try await program.execute("INSERT INTO notes (id, text, stars) VALUES (7, 'seven', 7)")
        try await program.execute("INSERT INTO notes (id, text) VALUES (8, 'eight')")
        try await program.execute("UPDATE notes SET stars = 9 WHERE id = 1")
        try await program.execute("DELETE FROM notes WHERE id = 2")
        let ben = try await cluster.device("ben")
        let expected = ["1|before|9", "3|salt|3", "7|seven|7", "8|eight|3"]
        #expect(try await ben.rows("SELECT id, text, stars FROM notes ORDER BY id") == expected)
        try anna.writeOutside(Self.migrate)
        let later = try await anna.reopened()
        try await later.engine.sync()
        #expect(try await later.rows("SELECT id, text, stars FROM notes ORDER BY id") == expected)
        try await cluster.converge(later, ben)
        await cluster.close()
    }

    @Test func `a renamed column stays the same column without a declaration, and is not sent again`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await cluster.psql("UPDATE notes SET text = 'rye' WHERE id = 2")
        try await cluster.psql("ALTER TABLE notes RENAME COLUMN text TO body")
        let revision = try await cluster.store.latest(zone: "main").revision
        try await anna.engine.sync()
        #expect(cluster.store.schema.history.renames["notes"] == ["text": "body"])
        #expect(try await cluster.rows("SELECT body FROM notes ORDER BY id") == ["oat milk", "rye", "salt"])
        #expect(try await cluster.store.latest(zone: "main").revision == revision + 2)
        try anna.writeOutside("ALTER TABLE notes RENAME COLUMN text TO body")
        let later = try await anna.reopened()
        try await later.write("UPDATE notes SET body = 'sea salt' WHERE id = 3")
        try await cluster.converge(later)
        await cluster.close()
    }

    @Test func `old apps continue after psql drops a column, and their values in it stay local`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        try await cluster.psql("ALTER TABLE notes DROP COLUMN done; DROP TABLE tags")
        try await anna.engine.sync()
        try await anna.write("UPDATE notes SET done = 1, text = 'oat milk' WHERE id = 1")
        try await cluster.settle([anna])
        #expect(try await cluster.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
        #expect(try await anna.rows("SELECT done FROM notes WHERE id = 1") == ["1"])
        #expect(cluster.store.schema.history.droppedTables == ["tags"])
        let ben = try await cluster.device("ben")
        try await ben.write("UPDATE notes SET text = 'rye' WHERE id = 2")
        try await cluster.converge(ben)
        await cluster.close()
    }

    @Test func `a later deletion succeeds if others changed only a dropped column`() async throws {
        let cluster = try await PostgresCluster(schema: Self.schema, seed: Self.seed, policies: ["notes": .lastWriter])
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await anna.write("UPDATE notes SET done = 1 WHERE id = 1")
        try await anna.engine.sync()
        try await cluster.psql("ALTER TABLE notes DROP COLUMN done")
        try await ben.write("DELETE FROM notes WHERE id = 1")
        try await cluster.settle([ben, anna])
        #expect(try await cluster.rows("SELECT id FROM notes ORDER BY id") == ["2", "3"])
        #expect(try await anna.rows("SELECT id FROM notes ORDER BY id") == ["2", "3"])
        for device in [anna, ben] { #expect(try await device.engine.conflicts().isEmpty) }
        await cluster.close()
    }

    @Test func `one migration that drops a column and writes rows succeeds, and devices resync`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE notes SET text = 'mine' WHERE id = 3")
        let epoch = try await cluster.store.latest(zone: "main").epoch
        try await cluster.psql("ALTER TABLE notes DROP COLUMN done; UPDATE notes SET text = upper(text) WHERE id < 3")
        try await cluster.settle([anna])
        #expect(try await cluster.store.latest(zone: "main").epoch != epoch)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["MILK", "BREAD", "mine"])
        #expect(try await anna.rows("SELECT text FROM notes ORDER BY id") == ["MILK", "BREAD", "mine"])
        await cluster.close()
    }

    @Test func `a recreated table, or a column of another type, starts a new history`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE notes SET text = 'mine' WHERE id = 1")
        try await anna.write("UPDATE notes SET text = 'also mine' WHERE id = 2")
        try await cluster.psql(
            """
            CREATE TABLE fresh (LIKE notes INCLUDING ALL);
            INSERT INTO fresh SELECT * FROM notes; UPDATE fresh SET text = 'unseen' WHERE id = 1;
            DROP TABLE notes; ALTER TABLE fresh RENAME TO notes
            """
        )
        try await anna.engine.sync()
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY id") == ["unseen", "also mine", "salt"])
        #expect(try await anna.engine.conflicts().count == 1)
        let epoch = try await cluster.store.latest(zone: "main").epoch
        // A device with the column as INTEGER stops until its type is equal; its file does not
        // change.
        try await cluster.psql("ALTER TABLE notes ALTER COLUMN done TYPE text")
        let error = await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(error?.code == .schemaMismatch)
        #expect(try await cluster.store.latest(zone: "main").epoch != epoch)
        await cluster.close()
    }

    @Test func `a column dropped and added again is a new column, and devices get its values`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.psql("UPDATE notes SET done = 1")
        try await cluster.settle([anna, ben])
        try await cluster.psql(
            """
            ALTER TABLE notes DROP COLUMN done;
            ALTER TABLE notes ADD COLUMN done bigint DEFAULT 7
            """
        )
        try await cluster.converge(anna, ben)
        #expect(try await anna.rows("SELECT DISTINCT done FROM notes") == ["7"])
        #expect(cluster.store.schema.history.fills["notes"] == ["done": "7"])
        await cluster.close()
    }

    @Test func `a new column with a former name is refused, and no old edit is written to it`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        try await cluster.psql("ALTER TABLE notes RENAME COLUMN text TO body")
        try await anna.engine.sync()
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await cluster.psql("ALTER TABLE notes ADD COLUMN text text")
        let error = await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(error?.code == .unavailable)
        #expect(error?.fix.contains("notes.text") == true)
        try await cluster.psql("ALTER TABLE notes RENAME COLUMN text TO remark")
        try await cluster.settle([anna])
        #expect(try await cluster.rows("SELECT body, remark FROM notes WHERE id = 1") == ["oat milk|"])
        #expect(try await anna.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
        await cluster.close()
    }

    @Test func `after a table was dropped and created, an app that was away takes the server's rows`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        let epoch = try await cluster.store.latest(zone: "main").epoch
        try await cluster.psql("DROP TABLE tags")
        // A request lets the server notice that the table is dropped.
        _ = try await cluster.device("ben")
        try await cluster.psql(
            """
            CREATE TABLE tags (zone text COLLATE "C" NOT NULL DEFAULT 'main',
                name text COLLATE "C" NOT NULL, icon bytea, PRIMARY KEY (zone, name));
            INSERT INTO tags (name, icon) VALUES ('work', '\\x01'), ('club', '\\x02')
            """
        )
        try await cluster.settle([anna])
        #expect(try await cluster.store.latest(zone: "main").epoch != epoch)
        #expect(try await anna.rows("SELECT name FROM tags ORDER BY name") == ["club", "work"])
        #expect(try await cluster.rows("SELECT name FROM tags ORDER BY 1") == ["club", "work"])
        await cluster.close()
    }

    @Test func `devices send only new rows to a table dropped and created during their syncs`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben")
        try await cluster.psql("DROP TABLE notes")
        try await cluster.settle([anna, ben])
        try await anna.write(
            """
            UPDATE notes SET text = 'oat milk' WHERE id = 1; INSERT INTO notes (text) VALUES ('rake')
            """
        )
        try await ben.write("UPDATE notes SET text = 'toast' WHERE id = 2")
        try await cluster.settle([anna, ben])
        try await cluster.psql(
            """
            CREATE TABLE notes (zone text COLLATE "C" NOT NULL DEFAULT 'main',
                id bigint GENERATED BY DEFAULT AS IDENTITY, text text NOT NULL, done bigint DEFAULT 0,
                PRIMARY KEY (zone, id));
            INSERT INTO notes (id, text) VALUES (1, 'milk'), (2, 'rye'), (7, 'new')
            """
        )
        try await cluster.converge(anna, ben)
        #expect(try await cluster.rows("SELECT text FROM notes ORDER BY text") == ["new", "oat milk", "rake", "rye"])
        #expect(try await ben.engine.conflicts().flatMap(\.reasons).map(\.key) == ["2"])
        #expect(try await anna.engine.conflicts().isEmpty)
        await cluster.close()
    }

    @Test func `tables that swapped their names are captured under the new ones`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        try await cluster.psql(
            """
            CREATE TABLE blue (LIKE tags INCLUDING ALL); INSERT INTO blue VALUES ('sea', 'blue')
            """
        )
        try await anna.engine.sync()
        try await cluster.psql(
            """
            ALTER TABLE tags RENAME TO gone; ALTER TABLE blue RENAME TO tags;
            ALTER TABLE gone RENAME TO blue
            """
        )
        try await anna.engine.sync()
        try await cluster.psql("UPDATE tags SET colour = 'green'")
        try await anna.engine.sync()
        #expect(try await anna.rows("SELECT name, colour FROM tags") == ["sea|green"])
        await cluster.close()
    }

    @Test func `a table without a primary key is a named error until it has one again`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        try await anna.write("UPDATE notes SET text = 'mine' WHERE id = 1")
        try await cluster.psql("ALTER TABLE notes DROP CONSTRAINT notes_pkey")
        let error = await #expect(throws: TidemarkError.self) { try await anna.engine.sync() }
        #expect(error?.code == .unavailable)
        #expect(error?.fix.contains("notes") == true)
        try await cluster.psql("ALTER TABLE notes ADD PRIMARY KEY (zone, id)")
        try await cluster.converge(anna)
        #expect(try await cluster.rows("SELECT text FROM notes WHERE id = 1") == ["mine"])
        await cluster.close()
    }

    @Test func `D2: an idle node tells its listeners of rows in a new column`() async throws {
        let cluster = try await Self.cluster()
        let start = try await cluster.other.latest(zone: "main")
        let listener = try cluster.other.fanOut.listen(to: "main", since: start)
        try await cluster.psql(Self.grow + "UPDATE notes SET stars = 5")
        try await cluster.other.look(zone: "main")
        #expect(await listener.next() == .moved(try await cluster.store.latest(zone: "main")))
        #expect(cluster.other.schema.byName["notes"]?.columns.last?.name == "stars")
        await cluster.close()
    }

    @Test func `a sync does not wait for programs that write to an altered table`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        let slow = try await cluster.database.connect()
        try await cluster.psql(Self.grow)
        // The transaction uses the column, but its triggers do not capture it.
        try await slow.execute("BEGIN; UPDATE notes SET stars = 8 WHERE id = 3")
        try await anna.write("UPDATE notes SET text = 'oat milk' WHERE id = 1")
        try await anna.engine.sync()
        #expect(try await cluster.rows("SELECT text FROM notes WHERE id = 1") == ["oat milk"])
        #expect(cluster.store.schema.byName["notes"]?.columns.count == 3)
        try await slow.execute("COMMIT")
        try await anna.engine.sync()
        #expect(cluster.store.schema.byName["notes"]?.columns.count == 4)
        let ben = try await cluster.device("ben")
        #expect(try await ben.rows("SELECT stars FROM notes ORDER BY id") == ["3", "3", "8"])
        await cluster.close()
    }

    @Test func `C3: psql adds eight columns while devices write through two nodes, and no edit is lost`() async throws {
        let cluster = try await Self.cluster()
        let anna = try await cluster.device("anna")
        let ben = try await cluster.device("ben", over: InProcessTransport(to: cluster.other))
        let add: @Sendable (Int) -> String = { number in
            """
            ALTER TABLE notes ADD COLUMN c\(number) bigint DEFAULT \(number);
            UPDATE notes SET c\(number) = 100 + \(number) WHERE id = 1;
            INSERT INTO notes (id, text, c\(number)) VALUES (\(2_000 - number), 'psql', 7)
            """
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { for number in 1...8 { try await cluster.psql(add(number)) } }
            for (name, device) in [("anna", anna), ("ben", ben)] {
                group.addTask {
                    for number in 1...12 {
                        try await device.write("INSERT INTO notes (text) VALUES ('\(name) \(number)')")
                        try await device.engine.sync()
                    }
                }
            }
            try await group.waitForAll()
        }
        try await cluster.settle([anna, ben])
        let wrote = try await cluster.rows("SELECT count(*) FROM notes WHERE text LIKE '% %'")
        #expect(wrote == ["24"])
        // At last, the apps are released with all columns.
        var later: [TestDevice] = []
        for device in [anna, ben] {
            for number in 1...8 { try device.writeOutside("ALTER TABLE notes ADD COLUMN c\(number) INTEGER DEFAULT 0") }
            later.append(try await device.reopened())
        }
        let fresh = try await cluster.device("fresh")
        try await cluster.converge(later[0], later[1], fresh)
        let first = try await fresh.rows("SELECT c1, c2, c8 FROM notes WHERE id = 1")
        #expect(first == ["101|102|108"])
        let revisions = try await cluster.rows("SELECT count(*) = max(revision) - 1 FROM tidemark.revision")
        #expect(revisions == ["true"], "dense")
        await cluster.close()
    }

    @Test func `a node does not miss a table that psql creates while it reads another change`() async throws {
        let zone = try await PostgresZone()
        let slow = try await zone.database.connect()
        try await slow.execute("ALTER TABLE tag ADD COLUMN size bigint")
        try await slow.execute("BEGIN; LOCK TABLE tag IN ROW EXCLUSIVE MODE")
        async let opening = zone.node()
        try await zone.untilSomebodyWaits()
        try await zone.database.writeOutside(
            """
            CREATE TABLE medal (
                zone text COLLATE "C" NOT NULL DEFAULT 'main', id bigint, PRIMARY KEY (zone, id));
            INSERT INTO medal (id) VALUES (1)
            """
        )
        try await slow.execute("COMMIT")
        let node = try await opening
        let body = Array(#"{"maxRevision":0}"#.utf8)
        let answer = try Reply(try await node.sync(zone: "main", body: body))
        #expect(node.schema.byName["tag"]?.columns.last?.name == "size")
        #expect(node.schema.byName["medal"] != nil)
        #expect(answer.changes == ["create medal 1"])
        await node.close()
    }
}
