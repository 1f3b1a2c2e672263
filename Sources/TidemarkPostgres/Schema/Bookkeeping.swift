/// The bookkeeping of every zone, in PostgreSQL's schema `tidemark`.
///
/// Every key begins with the zone, and each statement of the hot path names only one zone. So the
/// tables can be distributed by zone.
///
/// | table | meaning of a row |
/// | --- | --- |
/// | `tidemark.served` | the synced tables, as devices declare them and as the catalogue had them |
/// | `tidemark.unseen` | a table with writes that the triggers could not read |
/// | `tidemark.zone` | a zone: epoch, latest revision, horizon; a commit locks it |
/// | `tidemark.lineage` | an earlier history of a zone, and the revision at which it ended |
/// | `tidemark.revision` | a committed change set, as JSON ready to send, and the hash of the history up to it |
/// | `tidemark.fingerprint` | the fingerprint of the rows at a revision, for one layout of the tables |
/// | `tidemark.log` | a record's change in a revision, with the values that it replaced |
/// | `tidemark.verdict` | the verdict on a change set id, with the new ids or the author's whole copy |
/// | `tidemark.lap` | the last request of a device, which exposes copies of the device's file, and its user |
/// | `tidemark.contact` | a device's first and last contact with a zone, and its revision after the last answer |
/// | `tidemark.idmap` | the permanent id of a device's temporary id |
/// | `tidemark.identity` | the next id of an integer-keyed table; ids are never reused |
/// | `tidemark.overruled` | values of a device that another change set overruled, until the device receives the note |
/// | `tidemark.capture` | a record's row before and after a statement, until a revision includes it |
/// | `tidemark.piece` | a piece of a long change set during its logging |
/// | `tidemark.outside` | a transaction of another program or zone with captured rows |
enum Bookkeeping {
    /// The version of these tables, and of the functions and triggers beside them.
    static let layout = 6

    static let sql = """
        CREATE TABLE IF NOT EXISTS tidemark.served (
            id int PRIMARY KEY CHECK (id = 1),
            layout int NOT NULL,
            namespace text NOT NULL,
            zone_column text,
            tables text NOT NULL,
            version bigint NOT NULL,
            catalogue text NOT NULL,
            excluded text NOT NULL,
            device_types text NOT NULL DEFAULT 'standard'
        );
        CREATE TABLE IF NOT EXISTS tidemark.unseen (tbl text COLLATE "C" NOT NULL);
        CREATE TABLE IF NOT EXISTS tidemark.zone (
            zone text COLLATE "C" PRIMARY KEY,
            epoch text NOT NULL,
            revision bigint NOT NULL,
            horizon bigint NOT NULL,
            adopted bigint NOT NULL,
            time bigint NOT NULL DEFAULT 0,
            notes bigint NOT NULL DEFAULT 0
        );
        CREATE TABLE IF NOT EXISTS tidemark.lineage (
            zone text COLLATE "C", epoch text COLLATE "C", ended bigint NOT NULL, PRIMARY KEY (zone, epoch)
        );
        CREATE TABLE IF NOT EXISTS tidemark.revision (
            zone text COLLATE "C",
            revision bigint,
            id text,
            device text,
            time bigint NOT NULL,
            body text NOT NULL,
            chain text NOT NULL,
            user_id text,
            committed bigint NOT NULL DEFAULT 0,
            PRIMARY KEY (zone, revision)
        );
        CREATE TABLE IF NOT EXISTS tidemark.fingerprint (
            zone text COLLATE "C",
            revision bigint,
            fingerprint text NOT NULL,
            shape text NOT NULL,
            PRIMARY KEY (zone, revision)
        );
        CREATE TABLE IF NOT EXISTS tidemark.log (
            zone text COLLATE "C",
            tbl text COLLATE "C",
            key text COLLATE "C",
            revision bigint,
            operation text NOT NULL,
            columns text,
            merged boolean NOT NULL DEFAULT false,
            replaced text,
            absorbed bigint,
            PRIMARY KEY (zone, tbl, key, revision)
        );
        CREATE INDEX IF NOT EXISTS log_revision ON tidemark.log (zone, revision);
        CREATE TABLE IF NOT EXISTS tidemark.verdict (
            zone text COLLATE "C",
            id text COLLATE "C",
            device text,
            hash text NOT NULL,
            revision bigint,
            after text[] NOT NULL,
            body text,
            ids text,
            as_sent boolean NOT NULL DEFAULT false,
            PRIMARY KEY (zone, id)
        );
        -- Rows exist only within their transaction, so the table needs no crash recovery.
        CREATE UNLOGGED TABLE IF NOT EXISTS tidemark.piece (
            zone text COLLATE "C", revision bigint, number int, text text NOT NULL,
            PRIMARY KEY (zone, revision, number)
        );
        CREATE INDEX IF NOT EXISTS verdict_revision ON tidemark.verdict (zone, revision);
        CREATE TABLE IF NOT EXISTS tidemark.lap (
            zone text COLLATE "C", device text COLLATE "C", lap text NOT NULL, revision bigint NOT NULL,
            user_id text, PRIMARY KEY (zone, device)
        );
        CREATE TABLE IF NOT EXISTS tidemark.refused (
            zone text COLLATE "C",
            number bigint,
            id text NOT NULL,
            decided bigint NOT NULL,
            base bigint NOT NULL,
            sent text,
            PRIMARY KEY (zone, number)
        );
        CREATE TABLE IF NOT EXISTS tidemark.contact (
            zone text COLLATE "C",
            device text COLLATE "C",
            name text,
            user_id text,
            first bigint NOT NULL,
            last bigint NOT NULL,
            revision bigint,
            PRIMARY KEY (zone, device)
        );
        CREATE TABLE IF NOT EXISTS tidemark.idmap (
            zone text COLLATE "C", device text COLLATE "C", tbl text COLLATE "C", temporary bigint,
            permanent bigint NOT NULL, PRIMARY KEY (zone, device, tbl, temporary)
        );
        CREATE TABLE IF NOT EXISTS tidemark.identity (
            zone text COLLATE "C", tbl text COLLATE "C", next bigint NOT NULL, PRIMARY KEY (zone, tbl)
        );
        CREATE TABLE IF NOT EXISTS tidemark.overruled (
            zone text COLLATE "C", device text COLLATE "C", number bigint,
            revision bigint NOT NULL, records text NOT NULL, PRIMARY KEY (zone, device, number)
        );
        CREATE INDEX IF NOT EXISTS overruled_revision ON tidemark.overruled (zone, revision);
        CREATE TABLE IF NOT EXISTS tidemark.capture (
            zone text COLLATE "C",
            seq bigint GENERATED ALWAYS AS IDENTITY,
            xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
            tbl text COLLATE "C" NOT NULL,
            key text COLLATE "C" NOT NULL,
            before text,
            after text,
            PRIMARY KEY (zone, xid, seq)
        );
        CREATE SEQUENCE IF NOT EXISTS tidemark.commits;
        CREATE SEQUENCE IF NOT EXISTS tidemark.lent;
        CREATE TABLE IF NOT EXISTS tidemark.outside (
            zone text COLLATE "C", xid xid8, number bigint, PRIMARY KEY (zone, xid)
        );
        """
}
