import TidemarkHistory

/// Requests, answers and the server's log, read from their JSON.
enum WireReading {
    /// A request as it left a device.
    static func request(_ body: [UInt8], device: String, number: Int) -> Request {
        var maxRevision: Int64 = 0
        var epoch: String? = nil
        var sets: [(id: String, wire: String)] = []
        var isQuestion: Bool = false
        var wantsRelated = true
        for (name, value) in JSONText.members(body[...]) {
            switch name {
            case "maxRevision": maxRevision = Int64(JSONText.raw(value)) ?? -1
            case "epoch": epoch = JSONText.string(value)
            case "recall": isQuestion = true
            case "echo": wantsRelated = JSONText.string(value) != "ids"
            case "changeSets": sets = JSONText.elements(value).map { (member("id", of: $0) ?? "", JSONText.raw($0)) }
            default: break
            }
        }
        return Request(
            device: device, number: number, maxRevision: maxRevision, epoch: epoch, changeSets: sets,
            isQuestion: isQuestion, wantsRelated: wantsRelated)
    }

    /// An answer as it left the server.
    static func answer(_ body: [UInt8]) -> Answer {
        var maxRevision: Int64 = 0
        var epoch: String = ""
        var replies: [JSONText.Text] = []
        var isWhole: Bool = true
        var asSent: Set<String> = []
        var lent: [Answer.Places] = []
        for (name, value) in JSONText.members(body[...]) {
            switch name {
            case "maxRevision": maxRevision = Int64(JSONText.raw(value)) ?? -1
            case "epoch": epoch = JSONText.string(value)
            case "echo": isWhole = JSONText.string(value) != "ids"
            case "asSent": asSent = Set(JSONText.elements(value).compactMap(JSONText.string))
            case "changeSets": replies = JSONText.elements(value)
            case "lent": lent = JSONText.members(value).flatMap { places($0.value, of: $0.name) }
            default: break
            }
        }
        return Answer(
            epoch: epoch, maxRevision: maxRevision,
            replies: replies.map { reply($0, isWhole: isWhole && !asSent.contains(member("id", of: $0) ?? "")) },
            lent: lent)
    }

    private static func places(_ lists: JSONText.Text, of table: String) -> [Answer.Places] {
        JSONText.elements(lists).compactMap { list in
            let numbers = JSONText.elements(list).compactMap { Int64(JSONText.raw($0)) }
            guard numbers.count == 4 else { return nil }
            return Answer.Places(
                table: table, first: numbers[0], last: numbers[1], stride: numbers[2], width: numbers[3])
        }
    }

    /// The changes of a revision of the log.
    static func changes(_ body: [UInt8]) -> [RecordChange] {
        records(JSONText.members(body[...])).map { record, operation, cells in
            RecordChange(record, operation: operation, cells: cells)
        }
    }

    /// The columns of an image of a table's row, an object of columns.
    static func cells(ofImage object: [UInt8], of table: String) -> Cells { cells(object[...], of: table) }

    // MARK: Change sets

    private static func reply(_ text: JSONText.Text, isWhole: Bool) -> Reply {
        let members = JSONText.members(text)
        let isConflict = members.contains { $0.name == "conflict" && $0.value.elementsEqual("true".utf8) }
        var truth: [RecordID: Cells?] = [:]
        var reasons: [(record: RecordID, rule: String)] = []
        if isConflict {
            for (record, operation, cells) in records(members) {
                truth[record] = .some(operation == .delete ? nil : cells)
            }
            let list = members.first { $0.name == "reasons" }?.value ?? []
            reasons = JSONText.elements(list).map { reason in
                let parts = JSONText.members(reason)
                let table = parts.first { $0.name == "table" }.map { JSONText.string($0.value) }
                let key = parts.first { $0.name == "key" }.map { JSONText.raw($0.value) }
                let rule = parts.first { $0.name == "rule" }.map { JSONText.string($0.value) }
                return (RecordID(table ?? "", key ?? ""), rule ?? "")
            }
        }
        let revision = members.first { $0.name == "revision" }.flatMap { Int64(JSONText.raw($0.value)) }
        return Reply(
            changeSet: members.first { $0.name == "id" }.map { JSONText.string($0.value) },
            revision: isConflict ? nil : revision, body: isWhole ? JSONText.raw(text) : nil, truth: truth,
            reasons: reasons)
    }

    private typealias Entry = (record: RecordID, operation: RecordChange.Operation, cells: Cells)

    private static func records(_ members: [(name: String, value: JSONText.Text)]) -> [Entry] {
        let tables = Migrations.allTables
        return members.flatMap { name, part -> [Entry] in
            guard let table = tables.first(where: { $0.name == name }) else { return [] }
            let lists = JSONText.members(part)
            let attributes = Dictionary(
                JSONText.members(lists.first { $0.name == "attributes" }?.value ?? []).map { ($0.name, $0.value) },
                uniquingKeysWith: { $1 })
            return lists.filter { $0.name != "attributes" }.flatMap { list -> [Entry] in
                let operation = RecordChange.Operation(rawValue: list.name) ?? .update
                return JSONText.elements(list.value).map { key in
                    let member = table.isText ? JSONText.string(key) : JSONText.raw(key)
                    let columns = attributes[member].map { cells($0, of: name) } ?? [:]
                    return (RecordID(name, JSONText.raw(key)), operation, columns)
                }
            }
        }
    }

    /// Maps a column to its first name.
    private static func cells(_ object: JSONText.Text, of table: String) -> Cells {
        let former = Migrations.formerNames[table] ?? [:]
        var cells: Cells = [:]
        for (name, value) in JSONText.members(object) where name != "revision" && name != "__oldId__" {
            cells[former[name] ?? name] = JSONText.raw(value)
        }
        return cells
    }

    private static func member(_ name: String, of object: JSONText.Text) -> String? {
        JSONText.members(object).first { $0.name == name }.map { JSONText.string($0.value) }
    }
}
