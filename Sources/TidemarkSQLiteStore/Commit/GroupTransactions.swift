import GRDB
import TidemarkCore
import TidemarkServer
import TidemarkStore

/// A group of requests and the transactions that it takes: mostly one.
///
/// First its change sets are written together. If that cannot be, everything is undone and each is
/// written in its turn. If a page of the file is damaged, SQLite cannot be trusted with the rest of
/// a transaction that has met it: then each request has a transaction to itself, and only who has
/// rows on that page is told of it.
extension ZoneFile {
    /// Answers a group in its order.
    ///
    /// - Throws: What a transaction failed with as a whole. Nobody has an answer then.
    func answer(_ group: [ZoneRequest], by handler: GroupHandler) async throws -> [Result<ZoneAnswer, any Error>] {
        do {
            if let answers = try await answerTogether(group, by: handler) { return answers }
            return try await answerInTurn(group, by: handler)
        } catch let error as TidemarkError where error.code == .fileDamaged && group.count > 1 {
            return try await answerAlone(group, by: handler)
        }
    }

    private func answerTogether(_ group: [ZoneRequest], by handler: GroupHandler) async throws -> [Result<
        ZoneAnswer, any Error
    >]? {
        try await inTransaction { transaction, _ in
            let answers = try transaction.answer(group, planningBy: handler)
            return (answers, Self.end(of: answers ?? []))
        }
    }

    private func answerInTurn(_ group: [ZoneRequest], by handler: GroupHandler) async throws -> [Result<
        ZoneAnswer, any Error
    >] {
        try await inTransaction { transaction, _ in
            let answers = try handler.handle(group, in: transaction)
            if group.count > 1, let damage = answers.compactMap(Self.damage).first { throw damage }
            return (answers, Self.end(of: answers))
        }
    }

    private func answerAlone(_ group: [ZoneRequest], by handler: GroupHandler) async throws -> [Result<
        ZoneAnswer, any Error
    >] {
        var answers: [Result<ZoneAnswer, any Error>] = []
        for request in group {
            do { answers += try await answerInTurn([request], by: handler) } catch let error as TidemarkError
                where error.code == .fileDamaged
            { answers.append(.failure(error)) }
        }
        return answers
    }

    /// The error that says that a page is damaged.
    private static func damage(_ answer: Result<ZoneAnswer, any Error>) -> TidemarkError? {
        guard case .failure(let error as TidemarkError) = answer, error.code == .fileDamaged else { return nil }
        return error
    }

    /// How a transaction ends that gave these answers.
    private static func end(of answers: [Result<ZoneAnswer, any Error>]) -> Database.TransactionCompletion {
        GroupHandler.isWorthCommitting(answers) ? .commit : .rollback
    }
}
