import GRDB

/// Parses the pieces of a large body: one row per key, and one row per record's attributes.
///
/// Later statements validate these rows. The outline keeps the small lists and attributes;
/// ``parseOutline(hasUnicodeEscapes:in:)`` parses them after its form has been checked.
struct StagedBulk {
    /// The body without the pieces.
    let outline: String
    /// The hashes of the change sets with pieces, by number.
    let hashes: [Int: String]

    /// Parses the large parts of a body without white space.
    ///
    /// The result is nil if there are none, or if the body is not JSON, which its reader then reports.
    init?(_ body: [UInt8], hasUnicodeEscapes: Bool, bound: ValueBound?, in db: Database) throws {
        let sql = (keys: Self.keysOfPiece(hasUnicodeEscapes), attributes: Self.attributesOfPiece)
        let parsed = try body.withUnsafeBufferPointer { body throws -> (outline: String, hashes: [Int: String])? in
            guard let outline = BodyOutline(body), !outline.pieces.isEmpty else { return nil }
            for piece in outline.pieces where piece.member == "attributes" { try bound?.check(piece, of: body) }
            for (number, piece) in outline.pieces.enumerated() {
                let isObject = piece.member == "attributes"
                let statement = try db.cachedStatement(sql: isObject ? sql.attributes : sql.keys)
                guard try piece.parse(number, of: body, by: statement) else { return nil }
            }
            let hashes = outline.sets.mapValues { set in
                var hash = RunningHash()
                hash.take(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(body)[set]))
                return hash.text
            }
            return (String(decoding: outline.text, as: UTF8.self), hashes)
        }
        guard let parsed else {
            for table in ["key", "attributes"] {
                try db.cachedStatement(sql: "DELETE FROM temp.tidemark_staged_\(table)").execute()
            }
            return nil
        }
        outline = parsed.outline
        hashes = parsed.hashes
    }

    /// Parses the lists and attributes in the outline.
    static func parseOutline(hasUnicodeEscapes: Bool, in db: Database) throws {
        try db.cachedStatement(sql: keysOfOutline(hasUnicodeEscapes)).execute()
        try db.cachedStatement(sql: attributesOfOutline).execute()
    }

    // MARK: The statements

    /// The SQL of a piece's table.
    private static let pieceTable = MemberSQL.name(of: "(?2 ->> '$')")

    private static func keysOfPiece(_ hasUnicodeEscapes: Bool) -> String {
        keys("?1, \(pieceTable), ?3, ?4 + element.key", list: "?5", hasUnicodeEscapes, from: "json_each(?5) AS element")
    }

    private static func keysOfOutline(_ hasUnicodeEscapes: Bool) -> String {
        keys(
            "part.ord, part.tbl, part.member, element.key",
            list: "part.value",
            hasUnicodeEscapes,
            from: """
                temp.tidemark_staged_part AS part, json_each(part.value) AS element
                WHERE part.member <> 'attributes'
                """
        )
    }

    /// Returns the statement that inserts keys.
    ///
    /// SQLite does not read all reals and escapes exactly, so the statement stores their text as well.
    private static func keys(_ place: String, list: String, _ hasUnicodeEscapes: Bool, from source: String) -> String {
        """
        INSERT INTO temp.tidemark_staged_key (ord, tbl, operation, place, type, atom, json)
        SELECT \(place), element.type, element.atom, CASE
            WHEN element.type IN ('array', 'object') THEN element.value
            WHEN element.type IN ('real'\(hasUnicodeEscapes ? ", 'text'" : "")) THEN \(list) -> element.fullkey END
        FROM \(source)
        """
    }

    private static let attributesOfPiece = attributes(
        "?1, \(pieceTable), ?4 + record.id",
        from: """
            json_each(?5) AS record
            LEFT JOIN temp.tidemark_table AS known_table ON known_table.tbl = \(pieceTable)
            """
    )
    private static let attributesOfOutline = attributes(
        "part.ord, part.tbl, record.id",
        from: """
            temp.tidemark_staged_part AS part JOIN temp.tidemark_table AS known_table USING (tbl),
                json_each(part.value) AS record
            WHERE part.member = 'attributes'
            """
    )

    /// Returns the statement that inserts attributes.
    ///
    /// Keys of other kinds than text keep the request's spelling until they are validated.
    private static func attributes(_ place: String, from source: String) -> String {
        """
        INSERT INTO temp.tidemark_staged_attributes (ord, tbl, place, key, attributes)
        SELECT \(place),
            iif(known_table.kind = 'text' AND record.key NOT LIKE '{"$%', tidemark_key(record.key), record.key),
            CASE record.type WHEN 'object' THEN record.value END
        FROM \(source)
        """
    }
}

extension BodyOutline.Piece {
    /// The bits of an element's place that contain its position in the piece.
    private static let placeShift = 32

    /// Parses a piece; false if it is not JSON.
    fileprivate func parse(_ number: Int, of body: UnsafeBufferPointer<UInt8>, by statement: Statement) throws -> Bool {
        let isObject = member == "attributes"
        // A piece may be one long value, so this makes a single copy.
        let text = String(unsafeUninitializedCapacity: content.count + 2) { buffer in
            buffer[0] = isObject ? UInt8(ascii: "{") : UInt8(ascii: "[")
            _ = buffer[1...].update(fromContentsOf: body[content])
            buffer[content.count + 1] = isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")
            return content.count + 2
        }
        do {
            try statement.executeAndClearBindings(arguments: [
                ord, String(decoding: body[table], as: UTF8.self), member, (number + 1) << Self.placeShift, text,
            ])
            return true
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR { return false }
    }
}
