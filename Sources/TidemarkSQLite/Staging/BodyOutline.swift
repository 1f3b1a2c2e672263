import TidemarkCore

/// A body with its bulk taken out: lists of keys, and attributes, that are long.
///
/// SQLite parses a JSON text anew in each statement that looks into it, and keeps the whole tree of
/// it meanwhile. So what every statement looks into is small, and what is large is cut into pieces,
/// each of which is parsed once. Where a list or an object was taken out, an empty one stands.
///
/// Nothing is judged here. The pieces are not known to be JSON; and a body that has another form,
/// or white space between its values, keeps everything, so that it is read as it is.
struct BodyOutline {
    /// A part of a long list or object that is one of a table's members.
    struct Piece {
        /// The change set's number.
        let ord: Int
        /// Where the table's name stands, with its quotes.
        let table: Range<Int>
        /// The member of the table's part.
        let member: String
        /// The elements, without the brackets around all of them.
        let content: Range<Int>
    }

    /// Shorter lists and objects stay where they are.
    private static let cutMin = 1 << 10
    /// How long a piece gets, unless a single element is longer.
    private static let pieceTarget = 16 << 10

    /// What is left of the body.
    private(set) var text: [UInt8] = []
    /// What was taken out, in the order in which it stood there.
    private(set) var pieces: [Piece] = []
    /// Where each change set of which something was taken out stands in the body, by its number.
    private(set) var sets: [Int: Range<Int>] = [:]

    /// Takes a body apart; nil when it has another form than that of change sets.
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

    /// Looks into the array of change sets, which is the body, or a member of it.
    private mutating func findSets(_ walk: JSONWalk, _ cuts: inout [Range<Int>]) -> Range<Int>? {
        guard !walk.isObject(0) else {
            var isFound = false
            return walk.members(of: 0) { name, value in
                guard !isFound, walk.isArray(value), walk.text(name) == "changeSets" else {
                    return walk.value(at: value)
                }
                isFound = true
                return cutSets(value, walk, &cuts)
            }
        }
        return walk.isArray(0) ? cutSets(0, walk, &cuts) : nil
    }

    private mutating func cutSets(_ start: Int, _ walk: JSONWalk, _ cuts: inout [Range<Int>]) -> Range<Int>? {
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
                    cut(content, ord, table, walk.text(member), walk, &cuts)
                }
            }
            if cuts.count > count { sets[ord] = range }
            return range
        }
    }

    /// Takes a member of a table's part out, if it is long.
    private mutating func cut(
        _ start: Int,
        _ ord: Int,
        _ table: Range<Int>,
        _ member: String,
        _ walk: JSONWalk,
        _ cuts: inout [Range<Int>]
    ) -> Range<Int>? {
        let isObject = member == "attributes"
        guard WireName.tableMembers.contains(member), isObject ? walk.isObject(start) : walk.isArray(start) else {
            return walk.value(at: start)
        }
        var found = [Piece]()
        var first = start + 1
        var end = start + 1
        let note = { (element: Range<Int>) in
            if element.upperBound - first > Self.pieceTarget, end > first {
                found.append(Piece(ord: ord, table: table, member: member, content: first..<end))
                first = element.lowerBound
            }
            end = element.upperBound
        }
        let whole =
            isObject
            ? walk.members(of: start) { name, value in
                let range = walk.value(at: value)
                if let range { note(name.lowerBound..<range.upperBound) }
                return range
            }
            : walk.elements(of: start) { value in
                let range = walk.value(at: value)
                if let range { note(range) }
                return range
            }
        guard let whole, whole.count > Self.cutMin else { return whole }
        pieces += found
        pieces.append(Piece(ord: ord, table: table, member: member, content: first..<end))
        cuts.append(whole)
        return whole
    }
}
