package struct FeedQuery: Hashable, Sendable {
    /// The revision, the time or the cursor after which the feed begins; nil for now.
    package var since: String?
    /// The tables; nil for all.
    package var tables: Set<String>?
    /// The filter and the columns; only with one table.
    package var list: ListQuery?
    package var isChangedOnly = false
    package var isDeletedOnly = false
    /// The most records; nil for all within ``ListQuery/allMax``.
    package var limit: Int? = 100
    private static let own: Set<String> = ["since", "tables", "columns", "deleted", "limit", "wait"]

    /// Reads the parameters; throws ``ErrorCode/invalidFilter``, ``ErrorCode/unknownColumn`` or `unknownTable`.
    package init(_ items: [ListQuery.Item], schema: SyncSchema) throws(TidemarkError) {
        var names: Set<String> = []
        for item in items where Self.own.contains(item.name) {
            guard names.insert(item.name).inserted else { throw Self.invalid(item.name) }
            try read(item, schema)
        }
        let rest = items.filter { !Self.own.contains($0.name) }
        guard !rest.isEmpty else { return }
        guard let tables, let name = tables.first, tables.count == 1, let table = schema.byName[name] else {
            throw TidemarkError(
                .invalidFilter, "The feed of several tables has no filter and no selection.",
                fix: "Add tables=NAME with one table, or leave \(rest[0].name) out.")
        }
        let list = try ListQuery(rest, of: table)
        guard list.relations.isEmpty, list.order.isEmpty, list.after == nil, list.count == nil else {
            throw Self.invalid(rest[0].name)
        }
        self.list = list
    }

    private mutating func read(_ item: ListQuery.Item, _ schema: SyncSchema) throws(TidemarkError) {
        switch (item.name, item.value) {
        case ("since", _): since = item.value
        case ("tables", _):
            let names = item.value.split(separator: ",").map(String.init)
            for name in names { _ = try schema.table(name) }
            tables = Set(names)
        case ("columns", "changed"): isChangedOnly = true
        case ("deleted", "only"): isDeletedOnly = true
        case ("limit", "all"): limit = nil
        case ("limit", _):
            guard let number = Int(item.value), (1...ListQuery.limitMax).contains(number) else {
                throw Self.invalid(item.name)
            }
            limit = number
        default: throw Self.invalid(item.name)
        }
    }

    private static func invalid(_ name: String) -> TidemarkError {
        TidemarkError(
            .invalidFilter, "The server cannot read the parameter \(name) of the feed, or it stands there twice.",
            fix: "Write since=1041, tables=a,b, columns=changed, deleted=only and limit=100, and filters.")
    }
}
