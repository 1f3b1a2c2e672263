internal import NIOPosix

/// Runs work that takes long or waits for a disk on a thread that may block.
///
/// Work once begun is not cut short by a cancelled task, so that files are always put in order.
func blocking<Value: Sendable, Failure: Error>(_ work: @escaping @Sendable () throws(Failure) -> Value)
    async throws(Failure) -> Value
{
    try await withCheckedContinuation { continuation in
        NIOThreadPool.singleton.submit { _ in continuation.resume(returning: Result(catching: work)) }
    }.get()
}
