import CLibPQ

/// Checks a database address before libpq reads it, which quotes parts that it cannot parse, even a password.
enum PostgresAddress {
    /// Checks that libpq can parse an address, as the user meant it; the ``PostgresFailure`` quotes nothing of it.
    static func check(_ address: String) throws {
        let isURL = ["postgres://", "postgresql://"].contains { address.hasPrefix($0) }
        guard isURL || address.contains("=") else {
            // A plain database name.
            guard !address.contains("://"), !address.contains("@") else { throw unreadable }
            return
        }
        guard let options = PQconninfoParse(address, nil) else { throw unreadable }
        defer { PQconninfoFree(options) }
        var option = options
        while let keyword = option.pointee.keyword {
            // libpq ends the password at the first @ or slash; an @ after it belongs to the password.
            if isURL, ["host", "dbname"].contains(String(cString: keyword)), let value = option.pointee.val,
                String(cString: value).contains("@")
            {
                throw unreadable
            }
            option += 1
        }
    }

    private static let unreadable = PostgresFailure(
        state: "",
        message: "the address cannot be read; a URL begins with postgres://, and a password in it "
            + "has %40 for @, %2F for / and %25 for %")
}
