import Foundation
import TidemarkCore
import TidemarkGzip
package import TidemarkEngine
package import TidemarkSQL

extension SnapshotFile {
    /// Compresses a snapshot and describes the file.
    package static func compressing(_ plain: String, _ header: SnapshotFormat.Header, at path: String) throws
        -> SnapshotFile
    {
        var hash = RunningHash()
        try GzipFile.compress(plain, to: path, level: 1) { hash.take($0) }
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        return SnapshotFile(
            path: path,
            byteCount: (attributes[.size] as? NSNumber)?.int64Value ?? 0,
            epoch: header.epoch,
            revision: header.revision,
            hash: hash.text,
            since: header.since
        )
    }
}

/// Removes a file if it exists.
package func removeIfThere(_ path: String) {
    guard FileManager.default.fileExists(atPath: path) else { return }
    do { try FileManager.default.removeItem(atPath: path) } catch {
        // A remaining file is overwritten at the next use, or the next use reports the error.
        return
    }
}
