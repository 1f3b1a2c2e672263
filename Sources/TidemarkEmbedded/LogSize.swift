import Foundation
import Synchronization
import TidemarkEngine

/// The size of a file's write-ahead log, as the metrics have it.
///
/// SQLite moves the log into the file, and begins anew, only while no program reads an older state. So a stuck reader
/// lets it grow. Safe to use from any task.
final class LogSize: Sendable {
    private let path: String
    private let metrics: ServerMetrics
    private let known = Mutex(0)

    init(of path: String, _ metrics: ServerMetrics) {
        self.path = path + "-wal"
        self.metrics = metrics
    }

    deinit { metrics.changeUnmerged(by: -known.withLock { $0 }) }

    /// Looks at the size now.
    func measure() {
        var status = stat()
        let size = stat(path, &status) == 0 ? Int(status.st_size) : 0
        known.withLock { known in
            if size != known { metrics.changeUnmerged(by: size - known) }
            known = size
        }
    }
}
