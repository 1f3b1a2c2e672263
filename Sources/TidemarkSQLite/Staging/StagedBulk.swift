import GRDB

/// The pieces of a large body, parsed: a row a key, and a row a record's attributes, of which
/// nothing is judged yet.
///
/// What is small stays in the outline, whose keys and attributes follow when its form is known to
/// be right.
struct StagedBulk {
    /// The body without the pieces.
    let outline: String
    /// The hashes of the change sets to which the pieces belong, by number.
    let hashes: [Int: String]

    /// Parses what is large in a body without white space; nil when there is nothing, or when the
    /// body is not JSON, which its reader will find out.
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
        (outline, hashes) = parsed
    }

    /// Parses the lists and attributes that the outline has kept.
    static func parseOutline(hasUnicodeEscapes: Bool, in db: Database) throws {
        try db.cachedStatement(sql: keysOfOutline(hasUnicodeEscapes)).execute()
        try db.cachedStatement(sql: attributesOfOutline).execute()
    }

    // MARK: The statements

    private static func keysOfPiece(_ hasUnicodeEscapes: Bool) -> String {
        keys("?1, ?2 ->> '$', ?3, ?4 + k.key", list: "?5", hasUnicodeEscapes, from: "json_each(?5) AS k")
    }

    private static func keysOfOutline(_ hasUnicodeEscapes: Bool) -> String {
        keys(
            "p.ord, p.tbl, p.member, k.key",
            list: "p.value",
            hasUnicodeEscapes,
            from: """
                temp.tidemark_staged_part AS p, json_each(p.value) AS k
                WHERE p.member <> 'attributes'
                """
        )
    }

    /// SQLite does not read every real exactly, nor every escape: such a key keeps its own text.
    private static func keys(_ place: String, list: String, _ hasUnicodeEscapes: Bool, from source: String) -> String {
        """
        INSERT INTO temp.tidemark_staged_key (ord, tbl, operation, place, type, atom, json)
        SELECT \(place), k.type, k.atom, CASE WHEN k.type IN ('array', 'object') THEN k.value
            WHEN k.type IN ('real'\(hasUnicodeEscapes ? ", 'text'" : "")) THEN \(list) -> k.fullkey END
        FROM \(source)
        """
    }

    private static let attributesOfPiece = attributes(
        "?1, ?2 ->> '$', ?4 + j.id",
        from: "json_each(?5) AS j LEFT JOIN temp.tidemark_table AS d ON d.tbl = ?2 ->> '$'"
    )
    private static let attributesOfOutline = attributes(
        "p.ord, p.tbl, j.id",
        from: """
            temp.tidemark_staged_part AS p JOIN temp.tidemark_table AS d USING (tbl),
            json_each(p.value) AS j WHERE p.member = 'attributes'
            """
    )

    /// A key that may be something else than text stays as it is written, until it is judged.
    private static func attributes(_ place: String, from source: String) -> String {
        """
        INSERT INTO temp.tidemark_staged_attributes (ord, tbl, place, key, attributes)
        SELECT \(place),
            iif(d.kind = 'text' AND j.key NOT LIKE '{"$%', tidemark_key(j.key), j.key),
            CASE j.type WHEN 'object' THEN j.value END
        FROM \(source)
        """
    }
}

extension BodyOutline.Piece {
    /// Parses a piece; false when it is not JSON.
    fileprivate func parse(_ number: Int, of body: UnsafeBufferPointer<UInt8>, by statement: Statement) throws -> Bool {
        let isObject = member == "attributes"
        // A piece may be one long value, so no more copies are made of it than needed.
        let text = String(unsafeUninitializedCapacity: content.count + 2) { buffer in
            buffer[0] = isObject ? UInt8(ascii: "{") : UInt8(ascii: "[")
            _ = buffer[1...].update(fromContentsOf: body[content])
            buffer[content.count + 1] = isObject ? UInt8(ascii: "}") : UInt8(ascii: "]")
            return content.count + 2
        }
        do {
            try statement.executeLettingGo(arguments: [
                ord, String(decoding: body[table], as: UTF8.self), member, (number + 1) << 32, text,
            ])
            return true
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR { return false }
    }
}
