import GRDB
import TidemarkCore
import TidemarkEngine

/// Group commit: answers several requests in as few transactions as possible, usually one.
///
/// If SQLite reports a damaged page, the rest of the transaction cannot be trusted: the store then runs each request in
/// a transaction of its own, and only requests that touch the damaged page get the error.
extension ZoneFile {
    /// Answers the requests of a group in order.
    ///
    /// - Throws: The error that failed a whole transaction. No request has an answer then.
    func answer(_ group: [ZoneRequest], by handler: CommitGroup) async throws -> [ZoneResult] {
        do {
            return try await answerInTurn(group, by: handler)
        } catch let error as TidemarkError where error.code == .fileDamaged && group.count > 1 {
            return try await answerAlone(group, by: handler)
        }
    }

    private func answerInTurn(_ group: [ZoneRequest], by handler: CommitGroup) async throws -> [ZoneResult] {
        try await inTransaction { transaction, _ in
            let answers = try handler.handle(group, at: transaction.now, in: transaction)
            if group.count > 1, let damage = answers.results.compactMap(Self.damage).first { throw damage }
            return (answers.results, answers.haveEffect ? .commit(answers.state) : .rollback)
        }
    }

    private func answerAlone(_ group: [ZoneRequest], by handler: CommitGroup) async throws -> [ZoneResult] {
        var answers: [ZoneResult] = []
        for request in group {
            do { answers += try await answerInTurn([request], by: handler) } catch let error as TidemarkError
                where error.code == .fileDamaged
            { answers.append(.failure(error)) }
        }
        return answers
    }

    /// Returns the `fileDamaged` error of an answer; nil for every other answer.
    private static func damage(_ answer: ZoneResult) -> TidemarkError? {
        guard case .failure(let error as TidemarkError) = answer, error.code == .fileDamaged else { return nil }
        return error
    }
}
