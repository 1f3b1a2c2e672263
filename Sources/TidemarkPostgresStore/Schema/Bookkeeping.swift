/// The bookkeeping of every zone, in PostgreSQL's schema `tidemark`.
///
/// Every key begins with the zone, and no statement of the hot path names two, so the tables can be
/// distributed by it.
///
/// | table | a row is |
/// | --- | --- |
/// | `tidemark.served` | the tables that are synced, as devices know them, and as the catalogue had them |
/// | `tidemark.unseen` | a table of which rows were written that the triggers could not read |
/// | `tidemark.zone` | a zone: epoch, latest revision, horizon; whoever commits locks it |
/// | `tidemark.lineage` | an earlier history of a zone, and the revision at which it was left |
/// | `tidemark.revision` | a committed change set, as JSON ready to send, and the hash of the history up to it |
/// | `tidemark.fingerprint` | the fingerprint of the rows at a revision, for tables of a shape |
/// | `tidemark.log` | a record's change in a revision, without values |
/// | `tidemark.verdict` | what was answered to a change set id, beyond what the log says: the new ids, or the whole copy of its author |
/// | `tidemark.lap` | the last request of a device: tells a copy of its file from the file |
/// | `tidemark.idmap` | the permanent id that a device's temporary id became |
/// | `tidemark.identity` | the next id of an integer-keyed table; ids are never reused |
/// | `tidemark.overruled` | values of a device that another change set overruled, until it has them |
/// | `tidemark.capture` | a record's row before and after a statement, until a revision has it |
/// | `tidemark.piece` | a piece of a long change set that is being logged |
/// | `tidemark.outside` | a transaction of another program, or of another zone, that captured something |
enum Bookkeeping {
    /// The version of these tables, and of the functions and triggers beside them.
    static let layout = 5

    /// What a database that was served with layout 3 lacks; nodes of that version go on beside it.
    static let sinceLayout3 = """
        ALTER TABLE tidemark.verdict ADD COLUMN IF NOT EXISTS as_sent boolean NOT NULL DEFAULT false;
        \(pieces)
        UPDATE tidemark.served SET layout = 4 WHERE layout = 3;
        """

    /// What a database that was served with layout 4 needs, beside new functions of the triggers;
    /// nodes of that version go on beside it.
    ///
    /// They left what one zone's change set wrote into another one lying about. When that was is
    /// not known, so such zones begin another history.
    static let sinceLayout4 = """
        SELECT zone FROM tidemark.zone ORDER BY zone FOR UPDATE;
        WITH orphan AS (
            DELETE FROM tidemark.capture AS c WHERE NOT EXISTS (
                SELECT 1 FROM tidemark.outside AS o WHERE o.zone = c.zone AND o.xid = c.xid)
            RETURNING zone
        ), ended AS (
            INSERT INTO tidemark.lineage
            SELECT zone, epoch, revision FROM tidemark.zone WHERE zone IN (SELECT zone FROM orphan)
            ON CONFLICT (zone, epoch) DO UPDATE SET ended = excluded.ended
        ), forgotten AS (
            DELETE FROM tidemark.fingerprint WHERE zone IN (SELECT zone FROM orphan)
        )
        UPDATE tidemark.zone SET epoch = gen_random_uuid()::text WHERE zone IN (SELECT zone FROM orphan);
        UPDATE tidemark.served SET layout = \(layout) WHERE layout = 4;
        """

    /// What a database lacks whose tables were made before they had identity columns; other nodes
    /// go on beside it.
    static let sinceIdentities = """
        ALTER TABLE tidemark.served ADD COLUMN IF NOT EXISTS has_identities boolean NOT NULL DEFAULT false
        """

    /// Rows are there only while their transaction lasts, so no crash has to bring them back.
    private static let pieces = """
        CREATE UNLOGGED TABLE IF NOT EXISTS tidemark.piece (
            zone text COLLATE "C", revision bigint, number int, text text NOT NULL,
            PRIMARY KEY (zone, revision, number)
        );
        """

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
            has_identities boolean NOT NULL DEFAULT true
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
        \(pieces)
        CREATE INDEX IF NOT EXISTS verdict_revision ON tidemark.verdict (zone, revision);
        CREATE TABLE IF NOT EXISTS tidemark.lap (
            zone text COLLATE "C", device text COLLATE "C", lap text NOT NULL, revision bigint NOT NULL,
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
        CREATE TABLE IF NOT EXISTS tidemark.outside (
            zone text COLLATE "C", xid xid8, number bigint, PRIMARY KEY (zone, xid)
        );
        """
}
