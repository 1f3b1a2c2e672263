-- Cities of the world: six related tables of an ordinary app. Tidemark needs no special columns.

CREATE TABLE continents (
    code TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE countries (
    code           TEXT    NOT NULL PRIMARY KEY,
    iso3           TEXT    NOT NULL UNIQUE,
    name           TEXT    NOT NULL,
    continent_code TEXT    NOT NULL REFERENCES continents (code),
    capital        TEXT,
    area_km2       REAL    NOT NULL CHECK (area_km2 >= 0),
    population     INTEGER NOT NULL CHECK (population >= 0),
    currency_code  TEXT
);

CREATE TABLE timezones (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE admin_areas (
    country_code TEXT NOT NULL REFERENCES countries (code),
    code         TEXT NOT NULL,
    name         TEXT,
    PRIMARY KEY (country_code, code)
);

-- The id is the GeoNames id.
CREATE TABLE cities (
    id           INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL,
    country_code TEXT    NOT NULL REFERENCES countries (code),
    admin_code   TEXT,
    timezone_id  INTEGER NOT NULL REFERENCES timezones (id),
    latitude     REAL    NOT NULL CHECK (latitude BETWEEN -90 AND 90),
    longitude    REAL    NOT NULL CHECK (longitude BETWEEN -180 AND 180),
    population   INTEGER NOT NULL CHECK (population >= 0),
    FOREIGN KEY (country_code, admin_code) REFERENCES admin_areas (country_code, code)
);

CREATE TABLE alternate_names (
    id      INTEGER PRIMARY KEY,
    city_id INTEGER NOT NULL REFERENCES cities (id) ON DELETE CASCADE,
    name    TEXT    NOT NULL,
    UNIQUE (city_id, name)
);

-- Each foreign key has an index, so that a delete finds the children without a scan. For the parents
-- of admin_areas and alternate_names, their keys already provide it.
CREATE INDEX countries_by_continent ON countries (continent_code);
CREATE INDEX cities_by_admin_area ON cities (country_code, admin_code);
CREATE INDEX cities_by_timezone ON cities (timezone_id);
