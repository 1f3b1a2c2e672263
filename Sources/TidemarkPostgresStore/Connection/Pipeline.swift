import CLibPQ

/// Several statements in one round trip.
extension PostgresConnection {
    /// Sends statements at once and waits for all of their results.
    ///
    /// After one that fails the others are not run.
    ///
    /// - Throws: ``PostgresFailure`` of the first that fails.
    func run(_ statements: [PostgresStatement]) throws -> [PostgresRows] {
        for statement in statements { try Self.refuseNUL(statement.parameters, statement.sql) }
        let new = Set(statements.map(\.sql)).filter { prepared[$0] == nil }.count
        if prepared.count + new > Self.preparedMax { try forgetStatements() }
        guard PQenterPipelineMode(handle) == 1 else { throw lost() }
        let steps = try send(statements)
        let results = try receive(steps)
        guard PQexitPipelineMode(handle) == 1 else { throw lost() }
        return try results.get()
    }

    /// What a result belongs to.
    private struct Step {
        let sql: String
        /// The name under which the statement is being prepared; nil where it runs.
        let name: String?
    }

    private func send(_ statements: [PostgresStatement]) throws -> [Step] {
        var steps = [Step]()
        var fresh = [String: String]()
        for statement in statements {
            var name = prepared[statement.sql] ?? fresh[statement.sql]
            if name == nil {
                let made = "t\(prepared.count + fresh.count + 1)"
                guard PQsendPrepare(handle, made, statement.sql, 0, nil) == 1 else { throw lost() }
                steps.append(Step(sql: statement.sql, name: made))
                fresh[statement.sql] = made
                name = made
            }
            let isSent = Self.withCStrings(statement.parameters) {
                let count = Int32(statement.parameters.count)
                return PQsendQueryPrepared(handle, name, count, $0, nil, nil, 0)
            }
            guard isSent == 1 else { throw lost() }
            steps.append(Step(sql: statement.sql, name: nil))
        }
        guard PQpipelineSync(handle) == 1 else { throw lost() }
        return steps
    }

    /// Takes all results, so that the connection can be used again whatever they are.
    private func receive(_ steps: [Step]) throws -> Result<[PostgresRows], any Error> {
        var rows = [PostgresRows]()
        var failure = (any Error)?.none
        for step in steps {
            guard let result = PQgetResult(handle) else { throw lost() }
            if PQresultStatus(result) == PGRES_PIPELINE_ABORTED {
                PQclear(result)
            } else {
                do {
                    let result = PostgresRows(try checked(result, step.sql))
                    if let name = step.name { prepared[step.sql] = name } else { rows.append(result) }
                } catch {
                    if failure == nil { failure = error }
                    guard isUsable else { throw error }
                }
            }
            // Each statement's results end with none.
            while let more = PQgetResult(handle) { PQclear(more) }
        }
        // That of the synchronisation itself.
        PQclear(PQgetResult(handle))
        return failure.map { .failure($0) } ?? .success(rows)
    }

    private func lost() -> PostgresFailure {
        PostgresFailure(state: "", message: String(cString: PQerrorMessage(handle)))
    }
}
