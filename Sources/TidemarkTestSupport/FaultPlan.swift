import Synchronization
public import TidemarkCore

/// The fate of the messages between a device and its server, in the given order.
public final class FaultPlan: Sendable {
    /// The fate of one exchange.
    public enum Fault: Hashable, Sendable {
        /// The exchange succeeds.
        case none
        /// The server never sees the request.
        case requestLost
        /// The server commits, the device never hears of it.
        case answerLost
        /// The server sees the request twice; the second answer arrives.
        case requestDoubled
    }

    /// The error that a device gets for a lost message.
    public static let lost = TidemarkError(.unreachable, "The connection was cut.", fix: "Try again later.")

    private struct State {
        var faults: [Fault] = []
        var meanwhile: (@Sendable () async throws -> Void)?
        var requests: [[UInt8]] = []
        var answers: [[UInt8]] = []
        var questions: [ZoneTag] = []
        var comparisons: [Int] = []
        var meanwhileComparing: (@Sendable () async throws -> Void)?
    }

    private let state = Mutex(State())

    /// Makes a plan.
    public init(_ faults: [Fault] = []) { state.withLock { $0.faults = faults } }

    /// Adds faults behind the planned ones.
    public func add(_ faults: Fault...) { state.withLock { $0.faults += faults } }

    /// Runs `body` once, after the server has committed the next request and before its answer
    /// arrives.
    public func whileInFlight(_ body: @escaping @Sendable () async throws -> Void) {
        state.withLock { $0.meanwhile = body }
    }

    /// The bodies of the requests so far, as the device wrote them.
    public var requests: [String] { state.withLock { $0.requests.map { String(decoding: $0, as: UTF8.self) } } }

    /// The short questions so far: requests without a body.
    public var questions: [ZoneTag] { state.withLock { $0.questions } }

    /// The bodies of the server's answers so far, also of those that were lost.
    public var answers: [String] { state.withLock { $0.answers.map { String(decoding: $0, as: UTF8.self) } } }

    /// The bytes of each comparison of rows so far, both ways.
    public var comparisons: [Int] { state.withLock { $0.comparisons } }

    func whileComparing(_ body: @escaping @Sendable () async throws -> Void) {
        state.withLock { $0.meanwhileComparing = body }
    }

    func takeMeanwhileComparing() -> (@Sendable () async throws -> Void)? {
        state.withLock { state in
            defer { state.meanwhileComparing = nil }
            return state.meanwhileComparing
        }
    }

    func countComparison(bytes: Int) { state.withLock { $0.comparisons.append(bytes) } }

    func next() -> Fault { state.withLock { $0.faults.isEmpty ? .none : $0.faults.removeFirst() } }

    func record(request body: [UInt8]) { state.withLock { $0.requests.append(body) } }

    func record(question tag: ZoneTag) { state.withLock { $0.questions.append(tag) } }

    func record(answer body: [UInt8]) { state.withLock { $0.answers.append(body) } }

    func takeMeanwhile() -> (@Sendable () async throws -> Void)? {
        state.withLock { state in
            defer { state.meanwhile = nil }
            return state.meanwhile
        }
    }
}
