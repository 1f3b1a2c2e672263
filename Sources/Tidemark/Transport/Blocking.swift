internal import NIOPosix

/// Runs long or disk-bound work on a thread that may block.
///
/// Cancelling the task does not interrupt the work, so that it always cleans up its files.
func blocking<Value: Sendable, Failure: Error>(_ work: @escaping @Sendable () throws(Failure) -> Value)
    async throws(Failure) -> Value
{
    try await withCheckedContinuation { continuation in
        NIOThreadPool.singleton.submit { _ in continuation.resume(returning: Result(catching: work)) }
    }.get()
}
