/// Parses server-sent events from arriving pieces, in bounded memory.
struct EventStreamReader {
    /// An event, or a comment, which serves as a heartbeat.
    enum Item: Hashable {
        case comment
        case event(Event)
    }

    /// The fields between two empty lines.
    struct Event: Hashable {
        var name = "message"
        var id: String?
        var data = ""
        /// The pause before the next connection, in milliseconds.
        var retry: Int?
    }

    /// The error for an event that is longer than any of Tidemark's.
    struct TooLong: Error {}

    private static let bytesMax = 1 << 16
    private static let lineFeed = UInt8(ascii: "\n")
    private static let carriageReturn = UInt8(ascii: "\r")
    private var line: [UInt8] = []
    private var event = Event()
    private var hasFields = false
    private var followsReturn = false

    mutating func parse(_ bytes: some Sequence<UInt8>) throws(TooLong) -> [Item] {
        var items: [Item] = []
        for byte in bytes {
            defer { followsReturn = byte == Self.carriageReturn }
            if byte == Self.lineFeed, followsReturn { continue }
            guard byte == Self.lineFeed || byte == Self.carriageReturn else {
                line.append(byte)
                guard line.count + event.data.utf8.count <= Self.bytesMax else { throw TooLong() }
                continue
            }
            if let item = endLine() { items.append(item) }
        }
        return items
    }

    private mutating func endLine() -> Item? {
        defer { line.removeAll(keepingCapacity: true) }
        guard !line.isEmpty else {
            defer {
                event = Event()
                hasFields = false
            }
            return hasFields ? .event(event) : nil
        }
        let text = String(decoding: line, as: UTF8.self)
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        var value = parts.count == 2 ? parts[1] : ""
        if value.first == " " { value.removeFirst() }
        switch parts[0] {
        case "": return .comment
        case "event": event.name = String(value)
        case "id": event.id = String(value)
        case "data": event.data += event.data.isEmpty ? String(value) : "\n" + value
        case "retry": event.retry = Int(value)
        default: return nil
        }
        hasFields = true
        return nil
    }
}
