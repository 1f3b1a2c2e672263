import Synchronization

/// Measures the download of a zone's rows for ``SyncEngine/progress``.
///
/// A download that begins anew reaches the former fraction before it grows again. Safe to use from any task.
final class DownloadMeter: Sendable {
    /// The part of the bytes in the whole; the records have the rest, but for the commit.
    private static let bytesPart = 0.7
    private static let recordsPart = 0.29
    private let progress = Mutex(DownloadProgress.waiting)
    private let signal: ChangeSignal

    init(_ signal: ChangeSignal) { self.signal = signal }

    var current: DownloadProgress { progress.withLock { $0 } }

    /// Records bytes that have arrived, and their total if the server has said it.
    func received(_ bytes: Int64, of total: Int64?) {
        let part = total.map { $0 > 0 ? min(1, Double(bytes) / Double($0)) : 0 } ?? 0
        advance(to: .downloading(bytes: bytes, total: total), Self.bytesPart * part)
    }

    func applied(_ records: Int, of total: Int) {
        let part = total > 0 ? min(1, Double(records) / Double(total)) : 1
        advance(to: .applying(records: records, total: total), Self.bytesPart + Self.recordsPart * part)
    }

    private func advance(to stage: DownloadProgress.Stage, _ fraction: Double) {
        progress.withLock { $0 = DownloadProgress(stage: stage, fraction: max($0.fraction, fraction)) }
        signal.advance()
    }
}
