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
        var (cuts, last) = ([Range<Int>](), 0)
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

    private mutating func cutSets(
        _ start: Int,
        _ walk: JSONWalk,
        _ cuts: inout [Range<Int>]
    ) -> Range<Int>? {
        var ord = 0
        return walk.elements(of: start) { set in
            defer { ord += 1 }
            guard walk.isObject(set) else { return walk.value(at: set) }
            let count = cuts.count
            let range = walk.members(of: set) { table, part in
                guard walk.isObject(part),
                    !WireName.changeSetMembers.contains(walk.text(table))
                else { return walk.value(at: part) }
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
        guard WireName.tableMembers.contains(member),
            isObject ? walk.isObject(start) : walk.isArray(start)
        else { return walk.value(at: start) }
        var (found, first, end) = ([Piece](), start + 1, start + 1)
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

/// Finds where values of a JSON text without white space begin and end.
///
/// Each function returns where a value stands, or nil where something stands that begins none.
/// Whether what is inside is JSON, is for its reader to say.
struct JSONWalk {
    private let bytes: UnsafeBufferPointer<UInt8>

    init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    /// Whether an object begins at a place.
    func isObject(_ place: Int) -> Bool { byte(place) == UInt8(ascii: "{") }

    /// Whether an array begins at a place.
    func isArray(_ place: Int) -> Bool { byte(place) == UInt8(ascii: "[") }

    /// What stands between the quotes of a name.
    func text(_ name: Range<Int>) -> String {
        String(decoding: bytes[name].dropFirst().dropLast(), as: UTF8.self)
    }

    /// Goes through an object: `visit` gets a name's place with its quotes, and where its value
    /// begins, and finds that value's place.
    func members(of start: Int, _ visit: (Range<Int>, Int) -> Range<Int>?) -> Range<Int>? {
        list(start, until: UInt8(ascii: "}")) { place in
            guard byte(place) == UInt8(ascii: "\""), let name = value(at: place),
                byte(name.upperBound) == UInt8(ascii: ":")
            else { return nil }
            return visit(name, name.upperBound + 1)
        }
    }

    /// Goes through an array: `visit` gets where an element begins, and finds its place.
    func elements(of start: Int, _ visit: (Int) -> Range<Int>?) -> Range<Int>? {
        list(start, until: UInt8(ascii: "]"), visit)
    }

    /// The place of a value.
    func value(at start: Int) -> Range<Int>? {
        var (place, depth, isInString) = (start, 0, false)
        while place < bytes.count {
            let byte = bytes[place]
            if isInString {
                if byte == UInt8(ascii: "\\") {
                    place += 1
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                    if depth == 0 { return start..<(place + 1) }
                }
            } else {
                switch byte {
                case UInt8(ascii: "\""):
                    guard depth > 0 || place == start else { return nil }
                    isInString = true
                case UInt8(ascii: "{"), UInt8(ascii: "["):
                    guard depth > 0 || place == start else { return nil }
                    depth += 1
                case UInt8(ascii: "}"), UInt8(ascii: "]"):
                    if depth == 0 { return place > start ? start..<place : nil }
                    depth -= 1
                    if depth == 0 { return start..<(place + 1) }
                case UInt8(ascii: ","), UInt8(ascii: ":"):
                    if depth == 0 { return place > start ? start..<place : nil }
                default: break
                }
            }
            place += 1
        }
        return depth == 0 && !isInString && place > start ? start..<place : nil
    }

    private func byte(_ place: Int) -> UInt8? { place < bytes.count ? bytes[place] : nil }

    /// Goes through what commas separate, from a bracket to the one that ends it.
    private func list(_ start: Int, until end: UInt8, _ visit: (Int) -> Range<Int>?) -> Range<Int>?
    {
        if byte(start + 1) == end { return start..<(start + 2) }
        var place = start
        repeat {
            guard let element = visit(place + 1) else { return nil }
            place = element.upperBound
        } while byte(place) == UInt8(ascii: ",")
        return byte(place) == end ? start..<(place + 1) : nil
    }
}
