import TidemarkCore
import TidemarkSQL

/// Triggers that capture every statement on a synced table: of the engine, psql, a job or a cascade.
///
/// A trigger runs once per statement, with all old and new rows as sets. It writes one row per record
/// into `tidemark.capture`, as canonical JSON. A changed key becomes a deletion and a creation.
/// `ENABLE ALWAYS` makes the triggers fire in sessions with the replica role. Logical replication
/// fires no statement trigger, so a table with a subscription cannot be synced.
///
/// A transaction of another program adds itself to `tidemark.outside`, and draws a number when it
/// commits. A later writer of the same row waits for that commit, and draws a higher number. So the
/// numbers are a valid serial order, without a global lock. The engine absorbs the visible
/// transactions, never "all up to a number", because a lower number may commit late.
///
/// A trigger of the app or a cascade may write rows of another zone than the change set's. Capture
/// treats that change set as another program for that zone.
enum CaptureTriggers {
    /// The maximum length of a zone's name, which must fit into a notification.
    static let zoneBytesMax = 200

    static let sharedSQL = """
        CREATE OR REPLACE FUNCTION tidemark.note_outside() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
        BEGIN
            UPDATE tidemark.outside SET number = nextval('tidemark.commits')
                WHERE zone = NEW.zone AND xid = NEW.xid;
            IF octet_length(NEW.zone) <= \(zoneBytesMax) THEN
                PERFORM pg_notify('tidemark', 'outside ' || NEW.zone);
            END IF;
            RETURN NULL;
        END $$;

        DROP TRIGGER IF EXISTS note_outside ON tidemark.outside;
        CREATE CONSTRAINT TRIGGER note_outside AFTER INSERT OR UPDATE ON tidemark.outside
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.number IS NULL)
            EXECUTE FUNCTION tidemark.note_outside();
        ALTER TABLE tidemark.outside ENABLE ALWAYS TRIGGER note_outside;
        """

    static let names = ["insert", "update", "delete", "truncate"].map { "tidemark_\($0)" }

    static func install(_ table: PostgresTable) -> String {
        "\(function(table))\n\(triggers(table, functionName(table.table.name)))"
    }

    static func uninstall(_ table: String) -> String { "DROP FUNCTION IF EXISTS \(functionName(table))();" }

    /// The trigger function's quoted name: PostgreSQL cuts names after 63 bytes, so a long table has its hash in it.
    static func functionName(_ table: String) -> String {
        let name = "capture \(table)"
        guard name.utf8.count > 63 else { return "tidemark.\(SQLText.name(name))" }
        return "tidemark.\(SQLText.name("capture \(ContentHash.of(table).prefix(32))"))"
    }

    /// The zone of a row, with the collation of the bookkeeping.
    static func zone(of alias: String, _ table: PostgresTable) -> String {
        table.zoneColumn.map { "(\(alias).\(SQLText.name($0))::text COLLATE \"C\")" } ?? SQLText.literal("main")
    }

    /// The statement that creates or replaces the trigger function.
    ///
    /// A program may drop or rename a column, and write before a node follows. The function then
    /// cannot read the rows. It records that in `tidemark.unseen`, and lets the statement pass.
    static func function(_ table: PostgresTable) -> String {
        let function = functionName(table.table.name)
        let zone = { (alias: String) in Self.zone(of: alias, table) }
        let key = table.keyJSON
        let row = { (alias: String) in table.rowJSON(alias) }
        let isServed = { (alias: String) in Self.isServed(alias, table) }
        let recordOutside = { (source: String) in Self.recordOutside(source, table) }
        return """
            CREATE OR REPLACE FUNCTION \(function)() RETURNS trigger
            LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
            SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres'
            SET extra_float_digits = 1 SET bytea_output = 'hex' AS $$
            <<engine>> DECLARE
                own_zone text := CASE WHEN coalesce(current_setting('tidemark.engine', true), '') <> 'on' THEN ''
                    ELSE nullif(current_setting('tidemark.zone', true), '') END;
            BEGIN
                IF \(isUnreadable(table)) THEN
                    INSERT INTO tidemark.unseen SELECT \(table.literal)
                        WHERE NOT EXISTS (SELECT 1 FROM tidemark.unseen WHERE tbl = \(table.literal));
                ELSIF TG_OP = 'INSERT' THEN
                    \(refuseNaN(table, where: isServed("new_row")))
                    \(insertCapture)
                    SELECT \(zone("new_row")), \(table.literal), \(key("new_row")), NULL, \(row("new_row"))
                    FROM new_rows AS new_row
                    WHERE \(isServed("new_row"));
                    \(recordOutside("new_rows"))
                ELSIF TG_OP = 'UPDATE' THEN
                    \(refuseNaN(table, where: isServed("new_row")))
                    \(insertCapture)
                    SELECT coalesce(before.zone, after.zone), \(table.literal), coalesce(before.key, after.key),
                        before.image, after.image
                    FROM \(states("old_rows", alias: "old_row", table: table)) AS before
                    FULL JOIN \(states("new_rows", alias: "new_row", table: table)) AS after
                        ON before.zone = after.zone AND before.key = after.key
                    WHERE before.image IS DISTINCT FROM after.image;
                    \(recordOutside("old_rows"))
                    \(recordOutside("new_rows"))
                ELSIF TG_OP = 'DELETE' THEN
                    \(captureDeletions("old_rows", table))
                ELSE
                    \(captureDeletions(table.name, table))
                END IF;
                RETURN NULL;
            END $$;
            """
    }

    private static let insertCapture = "INSERT INTO tidemark.capture (zone, tbl, key, before, after)"

    /// The condition that a row is in a served zone; rows of others are their zone's first revision once it exists.
    private static func isServed(_ alias: String, _ table: PostgresTable) -> String {
        guard table.zoneColumn != nil else { return "true" }
        return "EXISTS (SELECT 1 FROM tidemark.zone AS served WHERE served.zone = \(zone(of: alias, table)))"
    }

    /// The statement that records an outside transaction in each zone of changed rows but the engine's own.
    private static func recordOutside(_ source: String, _ table: PostgresTable) -> String {
        let zone = zone(of: "changed", table)
        return """
            INSERT INTO tidemark.outside (zone, xid)
                    SELECT DISTINCT \(zone), pg_current_xact_id()
                    FROM \(source) AS changed
                    WHERE \(zone) <> engine.own_zone AND \(isServed("changed", table))
                    ON CONFLICT (zone, xid) DO UPDATE SET number = NULL WHERE outside.number IS NOT NULL;
            """
    }

    /// A derived table of the old or new rows, with zone, key and image.
    private static func states(_ source: String, alias: String, table: PostgresTable) -> String {
        """
        (SELECT \(zone(of: alias, table)) AS zone, \(table.keyJSON(alias)) AS key, \(table.rowJSON(alias)) AS image
                        FROM \(source) AS \(alias)
                        WHERE \(isServed(alias, table)))
        """
    }

    private static func captureDeletions(_ source: String, _ table: PostgresTable) -> String {
        let key = table.keyJSON("old_row")
        return """
            \(insertCapture)
                    SELECT \(zone(of: "old_row", table)), \(table.literal), \(key), \(table.rowJSON("old_row")), NULL
                    FROM \(source) AS old_row
                    WHERE \(isServed("old_row", table));
                    \(recordOutside(source, table))
            """
    }

    /// Refuses NaN in a NOT NULL column: SQLite stores it as NULL, so the row would block every device at its revision.
    private static func refuseNaN(_ table: PostgresTable, where isServed: String) -> String {
        let columns = table.table.columns.filter {
            table.kind($0.name) == .real && ($0.isNotNull || table.table.key.contains($0.name))
        }.map { SQLText.name($0.name) }
        guard !columns.isEmpty else { return "" }
        let isNaN = columns.map { "new_row.\($0) = 'NaN'" }.joined(separator: " OR ")
        let names = columns.joined(separator: " or ").replacing("'", with: "''")
        return """
            IF EXISTS (SELECT 1 FROM new_rows AS new_row WHERE (\(isNaN)) AND \(isServed)) THEN
                        RAISE EXCEPTION USING ERRCODE = 'check_violation',
                            MESSAGE = 'NaN in \(names), which is NOT NULL: no device of Tidemark can hold the row',
                            HINT = 'Write a number, or drop NOT NULL.';
                    END IF;
            """
    }

    /// The condition that the table lacks a column that the function reads.
    private static func isUnreadable(_ table: PostgresTable) -> String {
        let columns = table.table.columns.map(\.name) + [table.zoneColumn].compactMap { $0 }
        let names = columns.map { SQLText.literal($0) }.joined(separator: ", ")
        return """
            (SELECT count(*) FROM pg_catalog.pg_attribute
                WHERE attrelid = TG_RELID AND attnum > 0 AND attname IN (\(names)))
                < \(columns.count)
            """
    }

    private static func triggers(_ table: PostgresTable, _ function: String) -> String {
        let kinds = [
            ("insert", "AFTER INSERT", "REFERENCING NEW TABLE AS new_rows"),
            ("update", "AFTER UPDATE", "REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows"),
            ("delete", "AFTER DELETE", "REFERENCING OLD TABLE AS old_rows"), ("truncate", "BEFORE TRUNCATE", ""),
        ]
        return kinds.map { kind, event, rows in
            """
            CREATE OR REPLACE TRIGGER tidemark_\(kind) \(event) ON \(table.name) \(rows)
                FOR EACH STATEMENT EXECUTE FUNCTION \(function)();
            ALTER TABLE \(table.name) ENABLE ALWAYS TRIGGER tidemark_\(kind);
            """
        }.joined(separator: "\n")
    }
}
