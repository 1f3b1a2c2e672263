import TidemarkCore

/// The names of members in a JSON body that a decoder has accepted.
///
/// `JSONDecoder` ignores unknown members, and takes one of two members of the same name.
enum MemberNames {
    /// Passes each name to `check`, with the depth of its object: 1 is the outermost.
    ///
    /// - Throws: ``TidemarkCore/ErrorCode/duplicateName`` for a name that appears twice in one object, and the errors
    ///   of `check`.
    static func check(_ body: [UInt8], _ check: (_ name: String, _ depth: Int) throws -> Void) throws {
        // The names of the current object stand last, after those of the enclosing objects.
        var objects: [Set<String>] = []
        var start = 0
        var end = 0
        var isInString = false
        var isEscaped = false
        for (index, byte) in body.enumerated() {
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    end = index
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""):
                start = index + 1
                isInString = true
            case UInt8(ascii: "{"): objects.append([])
            case UInt8(ascii: "}"): _ = objects.popLast()
            case UInt8(ascii: ":"):
                let depth = objects.count
                let name = String(decoding: body[start..<end], as: UTF8.self)
                try check(name, depth)
                guard depth > 0, objects[depth - 1].insert(name).inserted else { throw twice(name) }
            default: break
            }
        }
    }

    private static func twice(_ name: String) -> TidemarkError {
        TidemarkError(
            .duplicateName,
            "The name \(name) appears twice in one object.",
            fix: "Give each name once: readers of JSON disagree on which one counts."
        )
    }

    /// Says which member a decoder could not read; nil if it names none.
    static func problem(_ error: DecodingError?) -> String? {
        switch error {
        case .keyNotFound(let key, let context): "\(path(of: context.codingPath + [key])) is missing."
        case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
            context.codingPath.isEmpty ? nil : "\(path(of: context.codingPath)) has another form."
        default: nil
        }
    }

    /// For instance `ranges[3].from`.
    private static func path(of keys: [any CodingKey]) -> String {
        keys.reduce("") { path, key in
            if let index = key.intValue { return "\(path)[\(index)]" }
            return path.isEmpty ? key.stringValue : "\(path).\(key.stringValue)"
        }
    }
}
