/// Reads a value for many callers at once.
///
/// One read is under way at a time. Callers that come meanwhile share the next one. So each caller gets a value
/// that was read after its call, and a crowd costs the database as much as two callers.
actor SharedReads<Value: Sendable> {
    private let work: @Sendable () async throws -> Value
    private var waiting: [CheckedContinuation<Value, any Error>] = []
    private var isReading = false

    init(_ work: @escaping @Sendable () async throws -> Value) { self.work = work }

    /// Returns the value as it is at a moment after the call.
    func read() async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            waiting.append(continuation)
            guard !isReading else { return }
            isReading = true
            Task { await readForAll() }
        }
    }

    private func readForAll() async {
        while !waiting.isEmpty {
            let callers = waiting
            waiting = []
            let result: Result<Value, any Error>
            do { result = .success(try await work()) } catch { result = .failure(error) }
            for caller in callers { caller.resume(with: result) }
        }
        isReading = false
    }
}
