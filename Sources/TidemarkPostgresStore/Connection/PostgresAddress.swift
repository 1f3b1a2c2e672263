import CLibPQ

/// The address of a database, looked at before libpq is: it quotes what it does not understand, and
/// that may be a piece of a password.
enum PostgresAddress {
    /// Looks whether an address can be read, and means what it seems to.
    ///
    /// - Throws: ``PostgresFailure``, which repeats nothing of the address.
    static func check(_ address: String) throws {
        let isURL = ["postgres://", "postgresql://"].contains { address.hasPrefix($0) }
        guard isURL || address.contains("=") else {
            // The name of a database.
            guard !address.contains("://"), !address.contains("@") else { throw unreadable }
            return
        }
        guard let options = PQconninfoParse(address, nil) else { throw unreadable }
        defer { PQconninfoFree(options) }
        var option = options
        while let keyword = option.pointee.keyword {
            // What stands behind the first @, or behind a slash, is no password to libpq.
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
        message: "the address cannot be read; it begins with postgres://, and in a password there "
            + "@ is written as %40, / as %2F and % as %25"
    )
}
