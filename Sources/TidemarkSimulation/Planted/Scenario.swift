#if DEBUG
import GRDB
import Tidemark
import TidemarkCore
import TidemarkSQL

/// An action of one peer on another that worlds from seeds do not contain.
///
/// Examples are hostile input, a handwritten request, and a replaced file.
struct Scenario: Sendable {
    /// The action, in a few words.
    let name: String
    /// The seed of the world, which decides its limits.
    var seed: UInt64 = 1
    /// Runs the action in a world without other events.
    ///
    /// - Returns: The faults afterwards.
    let happen: @Sendable (World) throws -> Finding?

    /// Runs it in a fresh world.
    ///
    /// - Throws: SQLite's error if the files in memory cannot be made.
    func run() throws -> Finding? {
        let options = SimulationOptions(seed: seed, rounds: 0, profile: .network)
        let world = try World(options, actions: Actions.all, storage: MemoryStorage(), templates: FileTemplates())
        do { return try happen(world) } catch let error as TidemarkError {
            return Finding("live", actor: name, detail: "threw \(error)")
        } catch let finding as Finding { return finding }
    }

    /// Whether a request is refused with a code and leaves no trace.
    static func refused(
        _ name: String,
        code: ErrorCode,
        after first: [String] = [],
        invariant: String,
        body: String
    ) -> Scenario {
        Scenario(name: name) { world in
            for body in first { _ = try world.server.handle(Array(body.utf8), crash: .never) }
            let before = try (world.server.revision(), world.server.rows())
            do {
                let answer = try world.server.handle(Array(body.utf8), crash: .never)
                let text = String(decoding: answer, as: UTF8.self)
                let detail = "answers \(text) instead of \(code.rawValue)"
                return Finding(invariant, actor: "server", detail: detail)
            } catch let error as TidemarkError {
                guard error.code == code else {
                    let detail = "says \(error.code.rawValue), not \(code.rawValue)"
                    return Finding(invariant, actor: "server", detail: detail)
                }
                guard try (world.server.revision(), world.server.rows()) != before else { return nil }
                return Finding(invariant, actor: "server", detail: "\(code.rawValue) has changed rows")
            }
        }
    }
}

extension SimulatedServer {
    /// The present rows.
    func rows() throws -> FileImage { try read { try FileImage($0) } }
}

extension SimulatedDevice {
    /// The number of waiting changes, and the conflicts.
    func queueCounts() throws -> (waiting: Int, conflicts: Int) {
        let waiting = try waiting()
        return (waiting.edits, waiting.conflicts)
    }
}
#endif
