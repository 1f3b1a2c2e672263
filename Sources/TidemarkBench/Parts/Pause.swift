/// The one place where a benchmark waits for time to pass.
enum Pause { static func last(_ duration: Duration) async throws { try await Task.sleep(for: duration) } }
