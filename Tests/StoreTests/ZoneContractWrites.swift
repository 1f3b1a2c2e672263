import StoreTestSupport
import Testing

@testable import TidemarkCore
@testable import TidemarkEngine

/// Writes and savepoints.
extension ZoneContractTests {
    @Test(arguments: SeamZone.Kind.allCases)
    func `an effect has the record before and after, and a write without a difference has none`(kind: SeamZone.Kind)
        async throws
    {
        let (changed, same) = try await Self.zone(kind).transaction { zone in
            (
                try zone.effects(
                    of: #"""
                        {"team":{"update":[1],"attributes":{"1":{"rank":7}}},
                         "cup":{"create":["tin"],"delete":["gold"],"attributes":{"tin":{"team_id":1}}}}
                        """#),
                try zone.effects(of: #"{"team":{"update":[2],"attributes":{"2":{"name":"Trier","rank":2}}}}"#)
            )
        }
        #expect(
            changed == [
                #"cup "gold": {"team_id":2,"year":1999} -> nothing"#,
                #"cup "tin": nothing -> {"team_id":1,"year":null}"#,
                #"team 1: {"name":"Kiel","rank":1,"note":null} -> {"name":"Kiel","rank":7,"note":null}"#,
            ])
        #expect(same.isEmpty)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `the effects of a deletion include what happens to the children`(kind: SeamZone.Kind) async throws {
        let (mentor, team) = try await Self.zone(kind).transaction { zone in
            (
                try zone.effects(of: #"{"player":{"delete":[1]}}"#),
                try zone.effects(of: #"{"team":{"delete":[1]}}"#)
            )
        }
        #expect(
            mentor == [
                #"player 1: {"team_id":1,"mentor_id":null,"name":"Anna"} -> nothing"#,
                #"player 2: {"team_id":1,"mentor_id":1,"name":"Ben"} -> {"team_id":1,"mentor_id":null,"name":"Ben"}"#,
            ])
        #expect(
            team == [
                #"player 2: {"team_id":1,"mentor_id":null,"name":"Ben"} -> nothing"#,
                #"team 1: {"name":"Kiel","rank":1,"note":null} -> nothing"#,
            ])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a child that moves away in the change set that deletes its parent stays`(kind: SeamZone.Kind) async throws {
        let effects = try await Self.zone(kind).transaction { zone in
            try zone.effects(
                of: #"{"team":{"delete":[1]},"player":{"update":[1],"delete":[2],"attributes":{"1":{"team_id":2}}}}"#)
        }
        #expect(
            effects == [
                #"player 1: {"team_id":1,"mentor_id":null,"name":"Anna"} -> "#
                    + #"{"team_id":2,"mentor_id":null,"name":"Anna"}"#,
                #"player 2: {"team_id":1,"mentor_id":1,"name":"Ben"} -> nothing"#,
                #"team 1: {"name":"Kiel","rank":1,"note":null} -> nothing"#,
            ])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `records of one change set swap a unique value, or take the one of a deleted record`(kind: SeamZone.Kind)
        async throws
    {
        let (swap, heir) = try await Self.zone(kind).transaction { zone in
            (
                try zone.effects(
                    of: #"{"team":{"update":[1,2],"attributes":{"1":{"name":"Trier"},"2":{"name":"Kiel"}}}}"#),
                try zone.effects(
                    of: #"{"team":{"create":[9],"delete":[1],"attributes":{"9":{"name":"Trier"}}}}"#)
            )
        }
        #expect(
            swap == [
                #"team 1: {"name":"Kiel","rank":1,"note":null} -> {"name":"Trier","rank":1,"note":null}"#,
                #"team 2: {"name":"Trier","rank":2,"note":null} -> {"name":"Kiel","rank":2,"note":null}"#,
            ])
        #expect(
            heir.suffix(2) == [
                #"team 1: {"name":"Trier","rank":1,"note":null} -> nothing"#,
                #"team 9: nothing -> {"name":"Trier","rank":null,"note":null}"#,
            ])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `several change sets are written as one: the value that one frees is the other's`(kind: SeamZone.Kind)
        async throws
    {
        let effects = try await Self.zone(kind).transaction { zone in
            try zone.effects(
                of: #"""
                    {"team":{"update":[1],"attributes":{"1":{"name":"Bonn"}}}},
                    {"team":{"update":[2],"attributes":{"2":{"name":"Kiel"}}}},
                    {"cup":{"create":["tin"],"attributes":{"tin":{"team_id":2,"year":2000}}}}
                    """#)
        }
        #expect(effects.count == 3)
    }

    /// The violation of a change set in a zone that has an alu cup, and had Bonn, team 40; nil if the zone takes it.
    private func violation(of changeSet: String, in kind: SeamZone.Kind) async throws -> Violation? {
        let zone = try await Self.zone(kind)
        try await zone.sync(
            at: 1, #"{"team":{"create":[40],"attributes":{"40":{"name":"Bonn"}}},"cup":{"create":["alu"]}}"#)
        try await zone.sync(at: 2, #"{"team":{"delete":[40]}}"#)
        return try await zone.transaction { try $0.violation(of: changeSet) }
    }

    private func expect(_ expected: Violation?, of changeSet: String, in kind: SeamZone.Kind) async throws {
        let found = try await violation(of: changeSet, in: kind)
        #expect(found == expected)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a unique value that another record holds is a conflict`(kind: SeamZone.Kind) async throws {
        let reason = ConflictReason(table: "team", key: "", columns: ["name"], rule: .unique)
        let create = #"{"team":{"create":[9],"attributes":{"9":{"name":"Kiel"}}}}"#
        try await expect(.conflict([reason]), of: create, in: kind)
        let update = #"{"team":{"update":[2],"attributes":{"2":{"name":"Kiel"}}}}"#
        try await expect(.conflict([reason]), of: update, in: kind)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `the creation of a record that exists is a conflict about its key`(kind: SeamZone.Kind) async throws {
        let number = ConflictReason(table: "team", key: "", columns: ["id"], rule: .unique)
        let again = #"{"team":{"create":[1],"attributes":{"1":{"name":"Bonn"}}}}"#
        try await expect(.conflict([number]), of: again, in: kind)
        let text = ConflictReason(table: "cup", key: "", columns: ["code"], rule: .unique)
        try await expect(.conflict([text]), of: #"{"cup":{"create":["gold"]}}"#, in: kind)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a parent that never existed refuses the change set, and a deleted one is a conflict`(kind: SeamZone.Kind)
        async throws
    {
        let orphan = #"{"player":{"create":[9],"attributes":{"9":{"team_id":99,"name":"Cleo"}}}}"#
        guard case .refusal(let error)? = try await violation(of: orphan, in: kind) else {
            Issue.record("the zone takes a broken reference")
            return
        }
        #expect(error.code == .brokenReference)
        #expect(error.place == .init(table: "player", key: "9", column: "team_id"))
        let late = #"{"player":{"update":[1],"attributes":{"1":{"team_id":40}}}}"#
        let reason = ConflictReason(table: "player", key: "1", columns: ["team_id"], rule: .parentDeleted)
        try await expect(.conflict([reason]), of: late, in: kind)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `PostgreSQL gave a broken reference beside a moving unique value as a conflict about no record`(
        kind: SeamZone.Kind
    ) async throws {
        let heir = #""team":{"delete":[1],"update":[2],"attributes":{"2":{"name":"Kiel"}}}"#
        let orphan = #""player":{"create":[9],"attributes":{"9":{"team_id":99,"name":"Cleo"}}}"#
        guard case .refusal(let error)? = try await violation(of: "{\(heir),\(orphan)}", in: kind) else {
            Issue.record("a parent that never existed is a conflict")
            return
        }
        #expect(error.code == .brokenReference)
        let reason = ConflictReason(table: "cup", key: #""gold""#, columns: ["team_id"], rule: .parentDeleted)
        let late = #""cup":{"update":["gold"],"attributes":{"gold":{"team_id":40}}}"#
        try await expect(.conflict([reason]), of: "{\(heir),\(late)}", in: kind)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a file named broken references in the order of their insertion, and PostgreSQL in that of their keys`(
        kind: SeamZone.Kind
    ) async throws {
        let reasons = [#""alu""#, #""gold""#].map {
            ConflictReason(table: "cup", key: $0, columns: ["team_id"], rule: .parentDeleted)
        }
        let late = #"{"gold":{"team_id":40},"alu":{"team_id":40}}"#
        try await expect(.conflict(reasons), of: #"{"cup":{"update":["gold","alu"],"attributes":\#(late)}}"#, in: kind)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a child holds its parent, unless the change set deletes or moves it`(kind: SeamZone.Kind) async throws {
        let reason = ConflictReason(table: "team", key: "2", columns: [], rule: .referenced)
        try await expect(.conflict([reason]), of: #"{"team":{"delete":[2]}}"#, in: kind)
        try await expect(nil, of: #"{"team":{"delete":[2]},"cup":{"delete":["gold"]}}"#, in: kind)
        let moved = #"{"team":{"delete":[2]},"cup":{"update":["gold"],"attributes":{"gold":{"team_id":1}}}}"#
        try await expect(nil, of: moved, in: kind)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `PostgreSQL restricts at once, so it names only the table of a parent that a child restricts`(
        kind: SeamZone.Kind
    ) async throws {
        let zone = try await Self.zone(kind)
        try await zone.sync(at: 1, #"{"medal":{"create":["m"],"attributes":{"m":{"team_id":1}}}}"#)
        let (found, freed) = try await zone.transaction { zone in
            let found = try zone.violation(of: #"{"team":{"delete":[1]}}"#)
            return (found, try zone.violation(of: #"{"team":{"delete":[1]},"medal":{"delete":["m"]}}"#))
        }
        let key = kind == .postgres ? "" : "1"
        #expect(found == .conflict([ConflictReason(table: "team", key: key, columns: [], rule: .referenced)]))
        #expect(freed == nil)
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a missing value refuses the change set, and names its column`(kind: SeamZone.Kind) async throws {
        let empty = #"{"team":{"update":[1],"attributes":{"1":{"name":null}}}}"#
        guard case .refusal(let error)? = try await violation(of: empty, in: kind) else {
            Issue.record("the zone takes NULL in a column that is NOT NULL")
            return
        }
        #expect(error.code == .constraintViolated)
        #expect(error.place == .init(table: "team", column: "name"))
        #expect(error.message.contains("NOT NULL constraint failed: team.name"))
    }

    // MARK: Savepoints

    @Test(arguments: SeamZone.Kind.allCases)
    func `a return to a savepoint undoes rows, books, and what the transaction has learned`(kind: SeamZone.Kind)
        async throws
    {
        struct Regret: Error {}
        let zone = try await Self.zone(kind)
        let (rows, revisions, assigned, verdicts) = try await zone.transaction { zone in
            let before = try zone.head()
            var revisions: [Int64] = []
            let outcome = try zone.undoable { () throws -> Void in
                _ = try zone.effects(of: #"{"team":{"delete":[1]}}"#)
                var commit = ZoneCommit(zone: before.state.with(revision: 2), at: SeamZone.now)
                commit.revisions = [Self.revision(2, after: before.chain, in: zone)]
                try zone.keep(commit)
                revisions.append(try zone.head().state.revision)
                throw Regret()
            }
            guard case .failure(is Regret) = outcome else { throw SavepointLost() }
            var query = FactsQuery()
            query.changeSets = [Self.id]
            query.oldest = 1
            return (
                try zone.records(.rows([zone.name("team", "1")])).rows.count,
                revisions + [try zone.head().state.revision],
                zone.books.assigned, try zone.facts(query).verdicts
            )
        }
        #expect(rows == 1)
        #expect(revisions == [2, 1])
        #expect(assigned.isEmpty)
        #expect(verdicts.isEmpty)
        #expect(try await zone.sync(at: 1, #"{"team":{"delete":[1]}}"#).maxRevision == 2)
    }

    private struct SavepointLost: Error {}

    @Test(arguments: SeamZone.Kind.allCases)
    func `savepoints nest: the inner one fails, and the outer one keeps the rest`(kind: SeamZone.Kind) async throws {
        let zone = try await Self.zone(kind)
        let (names, isUndone) = try await zone.transaction { zone in
            let isUndone = try zone.undoable {
                _ = try zone.effects(of: #"{"team":{"update":[1],"attributes":{"1":{"name":"Bonn"}}}}"#)
                let inner = try zone.undoable {
                    try zone.effects(of: #"{"team":{"update":[2],"attributes":{"2":{"name":"Bonn"}}}}"#)
                }
                return if case .failure(is Violation) = inner { true } else { false }
            }.get()
            let teams = [zone.name("team", "1"), zone.name("team", "2")]
            return (try zone.records(.rows(teams)).rows.map { $0.value[1] }, isUndone)
        }
        #expect(isUndone)
        #expect(Set(names) == [.text("Bonn"), .text("Trier")])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a refused request gets its own error, and the transaction goes on`(kind: SeamZone.Kind) async throws {
        let refused = TidemarkError(.constraintViolated, "No.", fix: "Give up.")
        let zone = try await Self.zone(kind)
        let (error, rows) = try await zone.transaction { zone in
            let outcome = try zone.isolated(alone: false) { () throws -> Void in
                _ = try zone.effects(of: #"{"team":{"delete":[1]}}"#)
                throw refused
            }
            _ = try zone.effects(of: #"{"team":{"update":[1],"attributes":{"1":{"rank":5}}}}"#)
            guard case .failure(let error) = outcome else { throw SavepointLost() }
            return (error as? TidemarkError, try zone.records(.rows([zone.name("team", "1")])).rows.values.first)
        }
        #expect(error == refused)
        #expect(rows == [.integer(1), .text("Kiel"), .integer(5), .null])
    }

    @Test(arguments: SeamZone.Kind.allCases)
    func `a second verdict on a change set fails its savepoint, and not the transaction`(kind: SeamZone.Kind)
        async throws
    {
        let zone = try await Self.zone(kind)
        let (isRefused, bases) = try await zone.transaction { zone in
            var commit = ZoneCommit(zone: try zone.head().state, at: SeamZone.now)
            commit.refusals = [Self.refusal]
            try zone.keep(commit)
            let again = try zone.savepoint {
                try zone.keep(commit)
                // The statement may wait until the next question.
                _ = try zone.authorsCopies(of: [Self.refusedID], .all)
            }
            let copies = try zone.authorsCopies(of: [Self.refusedID], .all)
            guard case .failure = again else { return (false, copies) }
            return (true, copies)
        }
        #expect(isRefused)
        #expect(bases == [Self.refusedID: Self.refusal.text])
    }
}
