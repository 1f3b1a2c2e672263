import TidemarkCore

/// A request body without its long key lists and attributes, which are cut into pieces.
///
/// SQLite parses a JSON text in each statement that reads it, and keeps the parsed tree in memory. So
/// the statements read a small outline, and parse each piece once. In the outline, an empty list or
/// object replaces each removed one.
///
/// The outline validates nothing: pieces may not be JSON. A body with another form, or with white
/// space between its values, has no outline, and the statements read the body itself.
struct BodyOutline {
    /// A part of a long member of a table's part.
    struct Piece {
        /// The change set's number.
        let ord: Int
        /// The position of the table's name, including its quotes.
        let table: Range<Int>
        /// The name of the member, such as `create`.
        let member: String
        /// The position of the elements, without the enclosing brackets.
        let content: Range<Int>
    }

    /// The longest list or object that stays in the outline, in bytes.
    private static let cutMin = 1 << 10
    /// The size of a piece in bytes, unless a single element is longer.
    private static let pieceTarget = 16 << 10

    /// The remaining body.
    private(set) var text: [UInt8] = []
    /// The removed pieces, in the order of the body.
    private(set) var pieces: [Piece] = []
    /// The positions of change sets with removed pieces, by number.
    private(set) var sets: [Int: Range<Int>] = [:]

    /// Divides a body; nil if it does not have the form of change sets.
    init?(_ body: UnsafeBufferPointer<UInt8>) {
        let walk = JSONWalk(body)
        var cuts = [Range<Int>]()
        var last = 0
        guard let whole = findSets(walk, &cuts), whole.upperBound == body.count else { return nil }
        for cut in cuts {
            text += body[last...cut.lowerBound]
            last = cut.upperBound - 1
        }
        text += body[last...]
    }

    /// Cuts the array of change sets, which is the body or its member `changeSets`.
    private mutating func findSets(_ walk: JSONWalk, _ cuts: inout [Range<Int>]) -> Range<Int>? {
        guard !walk.isObject(0) else {
            var hasChangeSets = false
            return walk.members(of: 0) { name, value in
                guard !hasChangeSets, walk.isArray(value), walk.text(name) == "changeSets" else {
                    return walk.value(at: value)
                }
                hasChangeSets = true
                return cutSets(value, walk: walk, cuts: &cuts)
            }
        }
        return walk.isArray(0) ? cutSets(0, walk: walk, cuts: &cuts) : nil
    }

    private mutating func cutSets(_ start: Int, walk: JSONWalk, cuts: inout [Range<Int>]) -> Range<Int>? {
        var ord = 0
        return walk.elements(of: start) { set in
            defer { ord += 1 }
            guard walk.isObject(set) else { return walk.value(at: set) }
            let count = cuts.count
            let range = walk.members(of: set) { table, part in
                guard walk.isObject(part), !WireName.changeSetMembers.contains(walk.text(table)) else {
                    return walk.value(at: part)
                }
                return walk.members(of: part) { member, content in
                    cut(content, ord: ord, table: table, member: walk.text(member), walk: walk, cuts: &cuts)
                }
            }
            if cuts.count > count { sets[ord] = range }
            return range
        }
    }

    /// Removes a member of a table's part if it is long.
    private mutating func cut(
        _ start: Int,
        ord: Int,
        table: Range<Int>,
        member: String,
        walk: JSONWalk,
        cuts: inout [Range<Int>]
    ) -> Range<Int>? {
        let isObject = member == "attributes"
        guard WireName.tableMembers.contains(member), isObject ? walk.isObject(start) : walk.isArray(start) else {
            return walk.value(at: start)
        }
        var newPieces = [Piece]()
        var first = start + 1
        var end = start + 1
        let addElement = { (element: Range<Int>) in
            if element.upperBound - first > Self.pieceTarget, end > first {
                newPieces.append(Piece(ord: ord, table: table, member: member, content: first..<end))
                first = element.lowerBound
            }
            end = element.upperBound
        }
        let whole =
            isObject
            ? walk.members(of: start) { name, value in
                let range = walk.value(at: value)
                if let range { addElement(name.lowerBound..<range.upperBound) }
                return range
            }
            : walk.elements(of: start) { value in
                let range = walk.value(at: value)
                if let range { addElement(range) }
                return range
            }
        guard let whole, whole.count > Self.cutMin else { return whole }
        pieces += newPieces
        pieces.append(Piece(ord: ord, table: table, member: member, content: first..<end))
        cuts.append(whole)
        return whole
    }
}
