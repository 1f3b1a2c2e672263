internal import NIOPosix

/// Runs long or disk-bound work on a thread that may block; cancelling does not interrupt it, so that it cleans up.
func blocking<Value: Sendable, Failure: Error>(_ work: @escaping @Sendable () throws(Failure) -> Value)
    async throws(Failure) -> Value
{
    try await withCheckedContinuation { continuation in
        NIOThreadPool.singleton.submit { _ in continuation.resume(returning: Result(catching: work)) }
    }.get()
}
