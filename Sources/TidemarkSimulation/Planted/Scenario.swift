#if DEBUG
import GRDB
import Tidemark
import TidemarkCore
import TidemarkSQLite

/// Something that one peer does to another, which worlds from seeds do not: hostile input, a
/// request typed by hand, a file exchanged.
struct Scenario: Sendable {
    /// What happens, in a few words.
    let name: String
    /// Makes it happen in a world where nothing else does.
    ///
    /// - Returns: What is wrong afterwards.
    let happen: @Sendable (World) throws -> Finding?

    /// Runs it in a fresh world.
    ///
    /// - Throws: What SQLite says when the files in memory cannot be made.
    func run() throws -> Finding? {
        let options = SimulationOptions(seed: 1, rounds: 0, profile: .network)
        let world = try World(options, Actions.all, MemoryStorage(), FileTemplates())
        do { return try happen(world) } catch let error as TidemarkError {
            return Finding("live", name, "threw \(error)")
        } catch let finding as Finding { return finding }
    }

    /// Whether a request is refused with a code and leaves no trace.
    static func refused(
        _ name: String,
        _ code: ErrorCode,
        after first: [String] = [],
        _ invariant: String,
        _ body: String
    ) -> Scenario {
        Scenario(name: name) { world in
            for body in first { _ = try world.server.handle(Array(body.utf8), crash: .never) }
            let before = try (world.server.revision(), world.server.rows())
            do {
                let answer = try world.server.handle(Array(body.utf8), crash: .never)
                let text = String(decoding: answer, as: UTF8.self)
                let detail = "answers \(text) instead of \(code.rawValue)"
                return Finding(invariant, "server", detail)
            } catch let error as TidemarkError {
                guard error.code == code else {
                    let detail = "says \(error.code.rawValue), not \(code.rawValue)"
                    return Finding(invariant, "server", detail)
                }
                guard try (world.server.revision(), world.server.rows()) != before else { return nil }
                return Finding(invariant, "server", "\(code.rawValue) has changed rows")
            }
        }
    }
}

extension SimulatedServer {
    /// The rows as they are now.
    func rows() throws -> FileImage { try read { try FileImage($0) } }
}

extension SimulatedDevice {
    /// How much waits, and what the conflicts are.
    func held() throws -> (waiting: Int, conflicts: Int) {
        let waiting = try waiting()
        return (waiting.edits, waiting.conflicts)
    }
}
#endif
