import TidemarkCore
import TidemarkSQLite

/// Triggers that note what any statement does to a synced table, whoever runs it: the engine, psql,
/// a job, a cascade.
///
/// One trigger call a statement, however many rows: the rows before and after are sets. They become
/// `tidemark.capture`, a row a record, as canonical JSON. A changed key is a deletion and a
/// creation. They fire for a session that writes as a replica, too (`ENABLE ALWAYS`), but not for
/// rows that logical replication applies, which fires no statement trigger: a table that has a
/// subscription cannot be synced.
///
/// A transaction of another program notes itself in `tidemark.outside` and draws a number when it
/// commits. Whoever wrote a row after it had to wait for its commit, and drew a higher one; so the
/// numbers are an order in which the transactions can have happened, and nobody is locked out
/// meanwhile. A transaction that commits late is simply not there yet: what is taken in is what is
/// visible, never "everything up to a number".
///
/// What a change set of one zone writes into another one, by a trigger of the app's or a cascade,
/// is noted in the same way: to that zone, its author is another program.
enum CaptureTriggers {
    /// The longest name of a zone: it has to fit into a notification.
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

    /// The names of a table's triggers.
    static let names = ["insert", "update", "delete", "truncate"].map { "tidemark_\($0)" }

    /// The statements that install capture on a table.
    static func install(_ table: PostgresTable) -> String {
        "\(function(table))\n\(triggers(table, functionName(table.table.name)))"
    }

    /// The statement that forgets a table which is gone, with its triggers.
    static func forget(_ table: String) -> String { "DROP FUNCTION IF EXISTS \(functionName(table))();" }

    /// The name of the triggers' function, quoted and with its schema.
    ///
    /// PostgreSQL cuts names after 63 bytes, behind which two tables may differ.
    static func functionName(_ table: String) -> String {
        let name = "capture \(table)"
        guard name.utf8.count > 63 else { return "tidemark.\(SQLText.name(name))" }
        return "tidemark.\(SQLText.name("capture \(ContentHash.of(table).prefix(32))"))"
    }

    /// The zone of a row, as its name is kept in the bookkeeping.
    static func zone(of alias: String, _ table: PostgresTable) -> String {
        table.zoneColumn.map { "(\(alias).\(SQLText.name($0))::text COLLATE \"C\")" } ?? SQLText.literal("main")
    }

    /// The statement that makes the triggers' function, or makes it anew.
    ///
    /// Whoever drops or renames a column may go on writing before anybody has followed: then the
    /// rows cannot be read as they were, which is noted, and the statement is let through.
    static func function(_ table: PostgresTable) -> String {
        let function = functionName(table.table.name)
        let zone = { (alias: String) in Self.zone(of: alias, table) }
        let key = table.keyJSON
        let row = { (alias: String) in table.rowJSON(alias) }
        // Rows of zones that are not served are nobody's; when one is, they are its first revision.
        let served = { (alias: String) in
            table.zoneColumn == nil ? "true" : "EXISTS (SELECT 1 FROM tidemark.zone AS z WHERE z.zone = \(zone(alias)))"
        }
        // What the engine writes into its own zone belongs to the change set that it is about.
        let zones = { (source: String) in
            """
            INSERT INTO tidemark.outside (zone, xid)
                    SELECT DISTINCT \(zone("r")), pg_current_xact_id() FROM \(source) AS r
                    WHERE \(zone("r")) <> engine.own_zone AND \(served("r"))
                    ON CONFLICT (zone, xid) DO UPDATE SET number = NULL WHERE outside.number IS NOT NULL;
            """
        }
        let into = "INSERT INTO tidemark.capture (zone, tbl, key, before, after)"
        return """
            CREATE OR REPLACE FUNCTION \(function)() RETURNS trigger
            LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
            SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres'
            SET extra_float_digits = 1 AS $$
            <<engine>> DECLARE
                own_zone text := CASE WHEN coalesce(current_setting('tidemark.engine', true), '') <> 'on' THEN ''
                    ELSE nullif(current_setting('tidemark.zone', true), '') END;
            BEGIN
                IF \(isUnreadable(table)) THEN
                    INSERT INTO tidemark.unseen SELECT \(table.literal)
                        WHERE NOT EXISTS (SELECT 1 FROM tidemark.unseen WHERE tbl = \(table.literal));
                ELSIF TG_OP = 'INSERT' THEN
                    \(refuseNaN(table, where: served("n")))
                    \(into) SELECT \(zone("n")), \(table.literal), \(key("n")), NULL, \(row("n")) FROM new_rows AS n WHERE \(served("n"));
                    \(zones("new_rows"))
                ELSIF TG_OP = 'UPDATE' THEN
                    \(refuseNaN(table, where: served("n")))
                    \(into) SELECT coalesce(o.z, n.z), \(table.literal), coalesce(o.k, n.k), o.r, n.r
                    FROM (SELECT \(zone("o")) AS z, \(key("o")) AS k, \(row("o")) AS r FROM old_rows AS o WHERE \(served("o"))) AS o
                    FULL JOIN (SELECT \(zone("n")) AS z, \(key("n")) AS k, \(row("n")) AS r FROM new_rows AS n WHERE \(served("n"))) AS n
                        ON o.z = n.z AND o.k = n.k
                    WHERE o.r IS DISTINCT FROM n.r;
                    \(zones("old_rows"))
                    \(zones("new_rows"))
                ELSIF TG_OP = 'DELETE' THEN
                    \(into) SELECT \(zone("o")), \(table.literal), \(key("o")), \(row("o")), NULL FROM old_rows AS o WHERE \(served("o"));
                    \(zones("old_rows"))
                ELSE
                    \(into) SELECT \(zone("o")), \(table.literal), \(key("o")), \(row("o")), NULL FROM \(table.name) AS o WHERE \(served("o"));
                    \(zones(table.name))
                END IF;
                RETURN NULL;
            END $$;
            """
    }

    /// Refuses new rows with NaN in a column that is NOT NULL: SQLite keeps no NaN but as NULL, so
    /// no device could hold the row, and none could go on behind it.
    private static func refuseNaN(_ table: PostgresTable, where isServed: String) -> String {
        let columns = table.table.columns.filter {
            table.kind($0.name) == .real && ($0.isNotNull || table.table.key.contains($0.name))
        }.map { SQLText.name($0.name) }
        guard !columns.isEmpty else { return "" }
        let isNaN = columns.map { "n.\($0) = 'NaN'" }.joined(separator: " OR ")
        let names = columns.joined(separator: " or ").replacing("'", with: "''")
        return """
            IF EXISTS (SELECT 1 FROM new_rows AS n WHERE (\(isNaN)) AND \(isServed)) THEN
                        RAISE EXCEPTION USING ERRCODE = 'check_violation',
                            MESSAGE = 'NaN in \(names), which is NOT NULL: no device of Tidemark can hold the row',
                            HINT = 'Write a number, or drop NOT NULL.';
                    END IF;
            """
    }

    /// Whether the table has not got all columns any more that the function reads.
    private static func isUnreadable(_ table: PostgresTable) -> String {
        let columns = table.table.columns.map(\.name) + [table.zoneColumn].compactMap { $0 }
        return """
            (SELECT count(*) FROM pg_catalog.pg_attribute
                WHERE attrelid = TG_RELID AND attnum > 0 AND attname IN (\(columns.map { SQLText.literal($0) }.joined(separator: ", "))))
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
