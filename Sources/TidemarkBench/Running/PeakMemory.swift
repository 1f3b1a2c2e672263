import Foundation

/// The most memory that this process has had at a time, where the system tells.
enum PeakMemory {
    /// Begins anew, on Linux.
    static func reset() {
        // Where this cannot be written, the peak is that of the whole run.
        FileManager.default.createFile(atPath: "/proc/self/clear_refs", contents: Data("5".utf8))
    }

    /// The peak since then, in bytes.
    static func bytes() -> Int? {
        guard let status = FileManager.default.contents(atPath: "/proc/self/status") else {
            return nil
        }
        let line = String(decoding: status, as: UTF8.self).split(separator: "\n")
            .first { $0.hasPrefix("VmHWM:") }
        return line?.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 << 10 }
    }
}
