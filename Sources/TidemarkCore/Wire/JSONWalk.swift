/// Finds the positions of values in a JSON text without white space.
///
/// Functions return a value's position, or nil if no value begins there. They do not validate the
/// content of the value.
package struct JSONWalk {
    private let bytes: UnsafeBufferPointer<UInt8>

    /// Creates a walk over a text, which must stay valid during the walk.
    package init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    /// Whether an object begins at a position.
    package func isObject(_ place: Int) -> Bool { byte(place) == UInt8(ascii: "{") }

    /// Whether an array begins at a position.
    package func isArray(_ place: Int) -> Bool { byte(place) == UInt8(ascii: "[") }

    /// Returns the text between the quotes of a name.
    package func text(_ name: Range<Int>) -> String {
        String(decoding: bytes[name].dropFirst().dropLast(), as: UTF8.self)
    }

    /// Visits the members of an object.
    ///
    /// `visit` gets the position of the name, with its quotes, and the start of the value. It returns
    /// the value's position.
    package func members(of start: Int, _ visit: (Range<Int>, Int) -> Range<Int>?) -> Range<Int>? {
        list(start, until: UInt8(ascii: "}")) { place in
            guard byte(place) == UInt8(ascii: "\""), let name = value(at: place),
                byte(name.upperBound) == UInt8(ascii: ":")
            else { return nil }
            return visit(name, name.upperBound + 1)
        }
    }

    /// Visits the elements of an array; `visit` gets an element's start and returns its position.
    package func elements(of start: Int, _ visit: (Int) -> Range<Int>?) -> Range<Int>? {
        list(start, until: UInt8(ascii: "]"), visit)
    }

    /// Returns the position of a value.
    package func value(at start: Int) -> Range<Int>? {
        var place = start
        var depth = 0
        var isInString = false
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
                case UInt8(ascii: ","), UInt8(ascii: ":"): if depth == 0 { return place > start ? start..<place : nil }
                default: break
                }
            }
            place += 1
        }
        return depth == 0 && !isInString && place > start ? start..<place : nil
    }

    private func byte(_ place: Int) -> UInt8? { place < bytes.count ? bytes[place] : nil }

    /// Visits comma-separated items from an opening bracket to the closing one.
    private func list(_ start: Int, until end: UInt8, _ visit: (Int) -> Range<Int>?) -> Range<Int>? {
        if byte(start + 1) == end { return start..<(start + 2) }
        var place = start
        repeat {
            guard let element = visit(place + 1) else { return nil }
            place = element.upperBound
        } while byte(place) == UInt8(ascii: ",")
        return byte(place) == end ? start..<(place + 1) : nil
    }
}
