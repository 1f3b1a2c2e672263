import TidemarkCore
import TidemarkSQL

/// The tables in which frameworks note the migrations of the database: ``TidemarkSQL/MigrationTables``.
extension AdoptTables {
    /// Reads the tables of known frameworks, as devices have them.
    func migrationObjects() throws -> FileObjects {
        let names = try pg.query(
            """
            SELECT class.relname
            FROM pg_class AS class
            JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
            WHERE namespace.nspname = $1 AND class.relkind = 'r' AND pg_has_role(class.relowner, 'USAGE')
                AND NOT EXISTS (
                    SELECT 1 FROM pg_attribute AS attribute
                    WHERE attribute.attrelid = class.oid AND attribute.attname = $2)
            ORDER BY class.relname
            """,
            [namespace, zoneColumn]
        ).map { $0.text(0) }.filter(MigrationTables.isKnown)
        var objects = FileObjects()
        objects.objects = try names.map { name in
            let key = try withoutZone(keyOrUnique(of: name))
            return FileObjects.Object(kind: .table, name: name, sql: try statement(name, key: key, among: []))
        }
        objects.migrationTables = try names.map { name in
            // SQLite has no Booleans.
            let rows = try pg.rows(
                """
                SELECT (SELECT jsonb_object_agg(cell.key, CASE jsonb_typeof(cell.value)
                        WHEN 'boolean' THEN to_jsonb(cell.value::boolean::int) ELSE cell.value END)
                    FROM jsonb_each(to_jsonb(note)) AS cell)
                FROM \(regclass(name)) AS note
                ORDER BY 1
                """
            ).map { String(decoding: JSONParts.compact($0.text(0).utf8), as: UTF8.self) }
            return FileObjects.MigrationTable(name: name, rows: rows)
        }
        return objects
    }

    /// Has all nodes look at the tables once a program has written a note, also without an alteration.
    func watch(_ tables: [FileObjects.MigrationTable]) throws {
        for table in tables {
            let isWatched = try pg.text(
                "SELECT 1 FROM pg_trigger WHERE tgrelid = to_regclass($1) AND tgname = 'tidemark_note'",
                [regclass(table.name)])
            guard isWatched == nil else { continue }
            try pg.execute(
                """
                CREATE OR REPLACE FUNCTION tidemark.note_migration() RETURNS trigger
                LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
                BEGIN
                    UPDATE tidemark.served SET version = version + 1;
                    RETURN NULL;
                END $$;
                CREATE TRIGGER tidemark_note AFTER INSERT OR UPDATE OR DELETE ON \(regclass(table.name))
                    FOR EACH STATEMENT EXECUTE FUNCTION tidemark.note_migration();
                """)
        }
    }
}
