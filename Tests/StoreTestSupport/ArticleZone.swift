/// The zone of the article that the protocol is based on: screens in a sports hall, at revision
/// 1000, whose next ids are the article's.
package enum ArticleZone {
    /// Creates the zone on a store.
    package static func make(_ store: Store) async throws -> Zone {
        let zone = try await Zone(store, schema)
        try await zone.begin(at: 990, nextIds: ["screen_instances": 321, "screen_instance_items": 412])
        for number in 991...1000 {
            try await zone.writeOutside(
                number == 991
                    ? "INSERT INTO screens VALUES (749, 'Board 0')"
                    : "UPDATE screens SET name = 'Board \(number)' WHERE id = 749")
            _ = try await zone.sync(at: 990)
        }
        return zone
    }

    package static let schema = """
        CREATE TABLE screens (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
        CREATE TABLE screen_instances (
            id INTEGER PRIMARY KEY, screen_id INTEGER NOT NULL REFERENCES screens, date TEXT, comment TEXT);
        CREATE TABLE screen_instance_items (
            id INTEGER PRIMARY KEY, screen_instance_id INTEGER NOT NULL REFERENCES screen_instances,
            numeric_value INTEGER);
        """

    /// The request as the article prints it.
    package static func request(maxRevision: Int) -> String {
        """
        {
            "maxRevision": \(maxRevision),
            "changeSets": [
                {
                    "types": [ "screen_instances", "screen_instance_items" ],
                    "screen_instances": {
                        "create": [ -10 ],
                        "update": [],
                        "delete": [],
                        "attributes": {
                            "-10": {
                                "screen_id": 749,
                                "date": "2014-02-01 13:15:23.487+01",
                                "comment": ""
                            }
                        }
                    },
                    "screen_instance_items": {
                        "create": [ -11, -12 ],
                        "update": [],
                        "delete": [],
                        "attributes": {
                            "-11": { "screen_instance_id": -10, "numeric_value": 2 },
                            "-12": { "screen_instance_id": -10, "numeric_value": 3 }
                        }
                    }
                }
            ]
        }
        """
    }
}
