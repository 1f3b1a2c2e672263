import GRDB
import Tidemark
import TidemarkPostgres

/// One device sends its offline edits.
enum PushBenchmark: Benchmark {
    static let name = "push"
    static let summary = "one device sends new rows in change sets of 1, 100 and 10,000"

    static func cases(_ setting: BenchSetting) -> [BenchCase] {
        // Change sets of one row are many: a tenth of the rows shows the cost of each.
        let sizes = [(1, setting.rows / 10), (100, setting.rows), (10_000, setting.rows)]
        let ceilingName =
            setting.postgres == nil
            ? "INSERT FROM json_each with a trigger's log, a transaction each 64 sets"
            : "INSERT FROM jsonb_to_recordset with a trigger's log, a transaction each 64 sets"
        return sizes.filter { $0.1 > 0 }.map { size, count in
            BenchCase("\(count) rows in change sets of \(min(size, count))", goal: .speed(0.4), against: ceilingName) {
                let folder = try BenchFolder(in: setting.folder)
                var job = try await job(setting, zone: Workplace.Zone(), count: count, in: size)
                if setting.postgres == nil {
                    job = job.with("least push") {
                        let paths = (device: folder.path(), server: folder.path())
                        return try LeastPush(count, in: size, at: paths).run().seconds
                    }
                }
                job.ceiling = {
                    if let address = setting.postgres { return try insert(count, in: size, at: address) }
                    return try insert(count, in: size, into: folder.path())
                }
                return job
            }
        }
    }

    static func job(_ setting: BenchSetting, zone: Workplace.Zone, count: Int, in size: Int) async throws
        -> BenchJob
    {
        let place = try await Workplace(setting, zone)
        return BenchJob(
            ours: { way in
                let path = try await place.join()
                let device = try await place.device(at: path, way)
                try await write(count, in: size, by: device)
                let sample = try await place.counting({ device.requests }) {
                    try await Sample.time { try await device.engine.sync() }
                }
                try device.close()
                try await place.check(path)
                return sample
            },
            finish: { try await place.end() }
        )
    }

    private static func write(_ count: Int, in size: Int, by device: BenchDevice) async throws {
        for first in stride(from: 1, through: count, by: size) {
            let sql = Items.insertion(min(size, count - first + 1), from: first)
            try await device.write(sql)
        }
    }

    // MARK: Ceilings

    private static func sets(_ count: Int, in size: Int) throws -> [String] {
        try DatabaseQueue().read { db in
            try stride(from: 1, through: count, by: size).map { first in
                try String.fetchOne(
                    db,
                    sql: """
                        SELECT json_group_array(json_object('id', id, 'name', name, 'note', note,
                            'amount', amount, 'price', price, 'made', made, 'kind', kind, 'mark', mark))
                        FROM (\(Items.rows(min(size, count - first + 1), from: first)))
                        """) ?? "[]"
            }
        }
    }

    /// As many change sets share a transaction as the requests of a group may.
    private static let group = 64

    private static func insert(_ count: Int, in size: Int, into path: String) throws -> Sample {
        let sets = try sets(count, in: size)
        try Items.make(0, at: path)
        let file = try DatabaseQueue(path: path)
        try file.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE log (id INTEGER, revision INTEGER);
                    CREATE TRIGGER note AFTER INSERT ON item BEGIN
                        INSERT INTO log VALUES (new.id, 1);
                    END
                    """)
        }
        let sample = try Sample.time {
            for first in stride(from: 0, to: sets.count, by: group) {
                try file.write { db in
                    for set in sets[first..<min(sets.count, first + group)] {
                        try db.cachedStatement(
                            sql: """
                                INSERT INTO item SELECT value ->> 'id', value ->> 'name', value ->> 'note',
                                    value ->> 'amount', value ->> 'price', value ->> 'made', value ->> 'kind',
                                    value ->> 'mark' FROM json_each(?)
                                """
                        ).execute(arguments: [set])
                    }
                }
            }
        }
        try file.close()
        return sample
    }

    private static func insert(_ count: Int, in size: Int, at address: String) throws -> Sample {
        let sets = try sets(count, in: size)
        let pg = try PostgresConnection(address)
        try pg.execute(
            """
            DROP TABLE IF EXISTS ceiling_item, ceiling_log;
            CREATE TABLE ceiling_item (id bigint PRIMARY KEY, name text, note text, amount bigint,
                price float8, made text, kind text, mark text);
            CREATE INDEX ON ceiling_item (name);
            CREATE TABLE ceiling_log (id bigint, revision bigint);
            CREATE OR REPLACE FUNCTION ceiling_note() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN INSERT INTO ceiling_log VALUES (new.id, 1); RETURN NULL; END $$;
            CREATE TRIGGER note AFTER INSERT ON ceiling_item FOR EACH ROW EXECUTE FUNCTION ceiling_note()
            """)
        return try Sample.time {
            for first in stride(from: 0, to: sets.count, by: group) {
                try pg.execute("BEGIN")
                for set in sets[first..<min(sets.count, first + group)] {
                    try pg.query(
                        """
                        INSERT INTO ceiling_item SELECT * FROM jsonb_to_recordset($1::jsonb) AS r (id bigint,
                            name text, note text, amount bigint, price float8, made text, kind text, mark text)
                        """,
                        [set])
                }
                try pg.commit()
            }
        }
    }
}
