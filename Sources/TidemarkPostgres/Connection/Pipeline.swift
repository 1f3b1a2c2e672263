import CLibPQ

/// Several statements in one round trip.
extension PostgresConnection {
    /// Sends all statements at once, and waits for their results.
    ///
    /// PostgreSQL skips the statements after a failed one.
    ///
    /// - Throws: The ``PostgresFailure`` of the first failed statement.
    func run(_ statements: [PostgresStatement]) throws -> [PostgresRows] {
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

    private func connectionLoss() -> PostgresFailure {
        PostgresFailure(state: "", message: String(cString: PQerrorMessage(handle)))
    }
}
