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
    /// The profile of the world, which decides its tables.
    var profile = Profile.network
    /// Runs the action in a world without other events.
    ///
    /// - Returns: The faults afterwards.
    let happen: @Sendable (World) throws -> Finding?

    /// Runs it in a fresh world.
    ///
    /// - Throws: SQLite's error if the files in memory cannot be made.
    func run() throws -> Finding? {
        let world = try Self.world(seed: seed, profile: profile)
        do { return try happen(world) } catch let error as TidemarkError {
            return Finding("live", actor: name, detail: "threw \(error)")
        } catch let finding as Finding { return finding }
    }

    /// Makes a fresh world without events.
    static func world(seed: UInt64, profile: Profile) throws -> World {
        let options = SimulationOptions(seed: seed, rounds: 0, profile: profile)
        return try World(options, actions: Actions.all, storage: MemoryStorage(), templates: FileTemplates())
    }

    /// Whether a request is refused with a code and leaves no trace.
    static func refused(_ name: String, code: ErrorCode, after first: [String] = [], invariant: String, body: String)
        -> Scenario
    {
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

extension World {
    /// Syncs a device without faults, and without the recorder.
    func sync(_ device: SimulatedDevice) throws {
        device.startRound(0)
        for _ in 0..<100 {
            var step: SyncRound.Step?
            do {
                step = try device.step(0) { try $0.next($1) }
                switch step {
                case nil, .finish?: return device.endRound(0)
                case .send(let request)?:
                    let answer = try server.handle(request.body, crash: .never)
                    _ = try device.step(0) { try $0.applyAnswer(answer, to: request, in: $1) }
                case .compare(let question)?:
                    let answer = try server.compare(question.body)
                    _ = try device.step(0) { try $0.applyComparison(answer, to: question, in: $1) }
                case .fetchSnapshot?: try takeSnapshot(device)
                case .askHistory(let question)?:
                    let answer = try server.history(of: question)
                    _ = try device.step(0) { try $0.applyHistory(answer, to: question, in: $1) }
                case .fetchSchema?:
                    throw Finding("live", actor: device.name, detail: "asks for a schema that it has")
                }
            } catch let error as TidemarkError {
                _ = try device.step(0) { try $0.handle(error, during: step, in: $1) }
            }
        }
        throw Finding("live", actor: device.name, detail: "does not end its sync")
    }
}

extension SimulatedDevice {
    /// Runs a transaction of the app.
    func write(_ sql: String) throws { try write { try $0.execute(sql: sql) } }
}
#endif
