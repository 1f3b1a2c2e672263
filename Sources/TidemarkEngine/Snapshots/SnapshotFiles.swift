import Foundation
import TidemarkCore
import TidemarkGzip

extension SnapshotFile {
    /// Compresses a snapshot of a zone at a revision, or a delta since another one, and describes the file.
    package static func compressing(_ plain: String, at path: String, epoch: String, revision: Int64, since: Int64?)
        throws -> SnapshotFile
    {
        var hash = RunningHash()
        try GzipFile.compress(plain, to: path, level: 1) { hash.take($0) }
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return SnapshotFile(
            path: path, byteCount: (attributes[.size] as? NSNumber)?.int64Value ?? 0, epoch: epoch, revision: revision,
            hash: hash.text, since: since)
    }
}

package func removeIfThere(_ path: String) {
    guard FileManager.default.fileExists(atPath: path) else { return }
    do { try FileManager.default.removeItem(atPath: path) } catch {
        // A remaining file is overwritten at the next use, or the next use reports the error.
        return
    }
}
