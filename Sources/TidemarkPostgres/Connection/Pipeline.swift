import CLibPQ

struct PostgresStatement {
    let sql: String
    let parameters: [String?]

    init(_ sql: String, _ parameters: [String?] = []) {
        self.sql = sql
        self.parameters = parameters
    }
}

/// Several statements in one round trip.
extension PostgresConnection {
    /// Sends a statement with the next round trip, or if it is long, at once; then an earlier one's failure is thrown.
    func queue(_ sql: String, _ parameters: [String?] = []) throws {
        queued.append(PostgresStatement(sql, parameters))
        queuedCount += 1
        let isLong = parameters.contains { ($0?.utf8.count ?? 0) > Self.queuedBytesMax / 4 }
        if isLong || queued.count > Self.queuedMax { try flush() }
    }

    private static let queuedBytesMax = 1 << 20
    private static let queuedMax = 64

    func flush() throws { if !queued.isEmpty { _ = try run([]) } }

    /// Forgets the statements queued after the first `count` ones, and returns whether all of them still waited.
    func forget(after count: Int) -> Bool {
        let forgotten = queuedCount - count
        defer { queuedCount = count }
        guard forgotten <= queued.count else {
            queued = []
            return false
        }
        queued.removeLast(forgotten)
        return true
    }

    /// Sends queued statements and these at once; throws the first ``PostgresFailure``, after which all are skipped.
    func run(_ last: [PostgresStatement]) throws -> [PostgresRows] {
        let statements = queued + last
        queued = []
        return Array(try send(all: statements).dropFirst(statements.count - last.count))
    }

    private func send(all statements: [PostgresStatement]) throws -> [PostgresRows] {
        for statement in statements { try Self.refuseNUL(statement.parameters, statement.sql) }
        let new = Set(statements.map(\.sql)).filter { statementNames[$0] == nil }.count
        if statementNames.count + new > Self.statementsMax { try deallocateStatements() }
        guard PQenterPipelineMode(handle) == 1 else { throw connectionLoss() }
        let steps = try send(statements)
        let results = try receive(steps)
        guard PQexitPipelineMode(handle) == 1 else { throw connectionLoss() }
        return try results.get()
    }

    /// The origin of a result.
    private struct Step {
        let sql: String
        /// The statement's name if the step prepares it; nil if the step runs it.
        let name: String?
    }

    private func send(_ statements: [PostgresStatement]) throws -> [Step] {
        var steps = [Step]()
        var newNames = [String: String]()
        for statement in statements {
            var name = statementNames[statement.sql] ?? newNames[statement.sql]
            if name == nil {
                let newName = "t\(statementNames.count + newNames.count + 1)"
                guard PQsendPrepare(handle, newName, statement.sql, 0, nil) == 1 else { throw connectionLoss() }
                steps.append(Step(sql: statement.sql, name: newName))
                newNames[statement.sql] = newName
                name = newName
            }
            let isSent = Self.withCStrings(statement.parameters) {
                let count = Int32(statement.parameters.count)
                return PQsendQueryPrepared(handle, name, count, $0, nil, nil, 0)
            }
            guard isSent == 1 else { throw connectionLoss() }
            steps.append(Step(sql: statement.sql, name: nil))
        }
        guard PQpipelineSync(handle) == 1 else { throw connectionLoss() }
        return steps
    }

    /// Reads all results, so that the connection stays usable after a failure.
    private func receive(_ steps: [Step]) throws -> Result<[PostgresRows], any Error> {
        var rows = [PostgresRows]()
        var failure = (any Error)?.none
        for step in steps {
            guard let result = PQgetResult(handle) else { throw connectionLoss() }
            if PQresultStatus(result) == PGRES_PIPELINE_ABORTED {
                PQclear(result)
            } else {
                do {
                    let result = PostgresRows(try checked(result, step.sql))
                    if let name = step.name { statementNames[step.sql] = name } else { rows.append(result) }
                } catch {
                    if failure == nil { failure = error }
                    guard isUsable else { throw error }
                }
            }
            // A null result ends each statement's results.
            while let more = PQgetResult(handle) { PQclear(more) }
        }
        // The result of the synchronisation point.
        PQclear(PQgetResult(handle))
        return failure.map { .failure($0) } ?? .success(rows)
    }

    func connectionLoss() -> PostgresFailure {
        PostgresFailure(state: "", message: String(cString: PQerrorMessage(handle)))
    }
}
