import TidemarkEngine

/// The bookkeeping of every zone, in PostgreSQL's schema `tidemark`: ``TidemarkEngine/BookTables``, and these.
///
/// Every key begins with the zone, and each statement of the hot path names only one zone. So the
/// tables can be distributed by zone.
enum Bookkeeping {
    /// The version of these tables, and of the functions and triggers beside them.
    static let layout = 6

    static let sql = """
        \(BookTables.postgres)
        CREATE TABLE IF NOT EXISTS tidemark.served (
            id int PRIMARY KEY CHECK (id = 1), layout int NOT NULL, namespace text NOT NULL, zone_column text,
            tables text NOT NULL, version bigint NOT NULL, catalogue text NOT NULL, excluded text NOT NULL,
            device_types text NOT NULL DEFAULT 'standard'
        );
        CREATE TABLE IF NOT EXISTS tidemark.unseen (tbl text COLLATE "C" NOT NULL);
        -- Rows exist only within their transaction, so the table needs no crash recovery.
        CREATE UNLOGGED TABLE IF NOT EXISTS tidemark.piece (
            zone text COLLATE "C", revision bigint, number int, text text NOT NULL,
            PRIMARY KEY (zone, revision, number)
        );
        CREATE TABLE IF NOT EXISTS tidemark.capture (
            zone text COLLATE "C", seq bigint GENERATED ALWAYS AS IDENTITY,
            xid xid8 NOT NULL DEFAULT pg_current_xact_id(), tbl text COLLATE "C" NOT NULL,
            key text COLLATE "C" NOT NULL, before text, after text, PRIMARY KEY (zone, xid, seq)
        );
        CREATE SEQUENCE IF NOT EXISTS tidemark.commits;
        CREATE SEQUENCE IF NOT EXISTS tidemark.lent;
        CREATE TABLE IF NOT EXISTS tidemark.outside (
            zone text COLLATE "C", xid xid8, number bigint, PRIMARY KEY (zone, xid)
        );
        """
}
