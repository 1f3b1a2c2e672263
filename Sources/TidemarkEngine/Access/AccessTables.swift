/// The tables of users, tokens and members, in SQL that SQLite and PostgreSQL both understand: Docs/BOOKKEEPING.md.
///
/// Times are milliseconds since 1970.
package enum AccessTables {
    /// The number of this layout; other ones have tables or columns that this program does not know.
    package static let layout = 2

    /// The statements that make the tables where they are missing.
    package static let statements = [
        """
        CREATE TABLE IF NOT EXISTS tidemark_user (
            id TEXT NOT NULL PRIMARY KEY,
            created BIGINT NOT NULL,
            disabled BIGINT)
        """,
        """
        CREATE TABLE IF NOT EXISTS tidemark_token (
            id TEXT NOT NULL PRIMARY KEY,
            kind TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES tidemark_user (id),
            hash TEXT NOT NULL UNIQUE,
            chain TEXT NOT NULL,
            predecessor TEXT,
            device TEXT,
            state TEXT NOT NULL,
            created BIGINT NOT NULL,
            expires BIGINT NOT NULL,
            retired BIGINT)
        """,
        "CREATE INDEX IF NOT EXISTS tidemark_token_chain ON tidemark_token (chain)",
        "CREATE INDEX IF NOT EXISTS tidemark_token_user ON tidemark_token (user_id)",
        """
        CREATE TABLE IF NOT EXISTS tidemark_zones (
            zone TEXT NOT NULL PRIMARY KEY,
            kind TEXT NOT NULL,
            title TEXT,
            author TEXT NOT NULL,
            request TEXT NOT NULL,
            created BIGINT NOT NULL,
            state TEXT NOT NULL,
            deleted BIGINT,
            UNIQUE (author, request))
        """,
        """
        CREATE TABLE IF NOT EXISTS tidemark_invitation (
            id TEXT NOT NULL PRIMARY KEY,
            zone TEXT NOT NULL REFERENCES tidemark_zones (zone),
            role TEXT NOT NULL,
            hash TEXT NOT NULL UNIQUE,
            uses BIGINT NOT NULL,
            author TEXT NOT NULL,
            created BIGINT NOT NULL,
            expires BIGINT NOT NULL,
            revoked BIGINT)
        """,
        "CREATE INDEX IF NOT EXISTS tidemark_invitation_zone ON tidemark_invitation (zone)",
        """
        CREATE TABLE IF NOT EXISTS tidemark_member (
            zone TEXT NOT NULL,
            user_id TEXT NOT NULL REFERENCES tidemark_user (id),
            role TEXT,
            since BIGINT NOT NULL,
            PRIMARY KEY (zone, user_id))
        """,
        "CREATE INDEX IF NOT EXISTS tidemark_member_user ON tidemark_member (user_id, zone)",
        """
        CREATE TABLE IF NOT EXISTS tidemark_audit (
            number BIGINT NOT NULL PRIMARY KEY,
            time BIGINT NOT NULL,
            user_id TEXT,
            action TEXT NOT NULL,
            subject TEXT,
            zone TEXT,
            detail TEXT)
        """,
        "CREATE INDEX IF NOT EXISTS tidemark_audit_time ON tidemark_audit (time)",
    ]
}
