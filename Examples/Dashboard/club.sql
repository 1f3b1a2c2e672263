-- Teams of a handball club, their players and matches.
CREATE TABLE team (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL UNIQUE,
    motto TEXT
);

CREATE TABLE player (
    id      INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL,
    team_id INTEGER NOT NULL REFERENCES team (id) ON DELETE CASCADE,
    goals   INTEGER NOT NULL DEFAULT 0 CHECK (goals >= 0)
);

CREATE TABLE match (
    home_id INTEGER NOT NULL REFERENCES team (id),
    away_id INTEGER NOT NULL REFERENCES team (id),
    played  TEXT,
    PRIMARY KEY (home_id, away_id)
);

CREATE INDEX player_by_team ON player (team_id);
CREATE INDEX match_by_away ON match (away_id);

INSERT INTO team VALUES
    (1, 'Kiel Wave 🌊', 'Faster than the tide'), (2, 'קבוצת חיפה', 'תמיד יחד'), (3, 'Flensburg Harbour', NULL);
WITH RECURSIVE number (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM number WHERE i < 40)
INSERT INTO player SELECT i, 'Player ' || i, i % 3 + 1, i % 7 FROM number;
INSERT INTO match VALUES (1, 2, '2026-10-03'), (2, 3, '2026-10-10'), (3, 1, NULL);
