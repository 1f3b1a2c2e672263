CREATE TABLE artist (id INTEGER PRIMARY KEY, name TEXT NOT NULL, "a.k.a., also" TEXT);
CREATE TABLE album (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL CHECK (length(title) > 0),
    artist_id INTEGER NOT NULL REFERENCES artist ON DELETE CASCADE,
    price REAL DEFAULT 9.99 CHECK (price >= 0),
    cover BLOB);
CREATE TABLE genre (code TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE);
CREATE TABLE track (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL DEFAULT 'untitled',
    album_id INTEGER REFERENCES album ON DELETE SET NULL,
    genre TEXT REFERENCES genre,
    milliseconds INTEGER NOT NULL CHECK (milliseconds > 0),
    rating NUMERIC,
    anything,
    minutes AS (milliseconds / 60000));
CREATE TABLE playlist (id INTEGER PRIMARY KEY, name TEXT, "limit" INTEGER, "$note" TEXT);
CREATE TABLE playlist_track (
    playlist_id INTEGER NOT NULL REFERENCES playlist ON DELETE CASCADE,
    track_id INTEGER NOT NULL REFERENCES track ON DELETE CASCADE,
    position INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (playlist_id, track_id));
CREATE TABLE invoice (
    id INTEGER PRIMARY KEY, customer TEXT NOT NULL, total REAL NOT NULL, quantity INT, receipt BLOB, note ANY) STRICT;
CREATE TABLE "odd 'name'/{x}, ü" ("first key" TEXT NOT NULL, "2" REAL NOT NULL, value TEXT, PRIMARY KEY ("first key", "2"));

INSERT INTO artist VALUES (1, 'Anna', NULL), (2, 'Ben', 'Benjamin');
INSERT INTO album VALUES (1, 'First', 1, 9.99, x'00ff'), (2, 'Second', 2, 0.5, NULL);
INSERT INTO genre VALUES ('rock', 'Rock'), ('a,b/c', 'Odd');
INSERT INTO track (name, album_id, genre, milliseconds, rating, anything)
    VALUES ('One', 1, 'rock', 1000, 4.5, 9007199254740993), ('Two', NULL, 'a,b/c', 60000, 5, x'00'), ('Three', 2, NULL, 1, 'good', 'text');
INSERT INTO playlist VALUES (1, 'All', 3, NULL), (2, NULL, NULL, 'x');
INSERT INTO playlist_track VALUES (1, 1, 0), (1, 2, 1), (2, 1, 0);
INSERT INTO invoice VALUES (1, 'Carl', 12.5, 1, x'01', 'note'), (2, 'Dora', 1e300, NULL, NULL, 5);
INSERT INTO "odd 'name'/{x}, ü" VALUES ('a,b', 1.5, 'v'), ('{"$x"', -0.25, NULL);
