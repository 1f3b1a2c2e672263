import Foundation

/// The system's figures of a process: its memory and its processor time, on Linux.
struct ProcessStatus: Sendable {
    private let folder: String
    static let own = ProcessStatus(folder: "/proc/self")

    init(_ process: Int32) { self.init(folder: "/proc/\(process)") }
    private init(folder: String) { self.folder = folder }

    /// The present memory, in bytes; nil where the system does not tell it, or the process has ended.
    var residentBytes: Int? { bytes("VmRSS:") }
    /// The peak memory, in bytes.
    var peakBytes: Int? { bytes("VmHWM:") }

    /// Resets the peak; where that is not possible, the peak is that of the whole process.
    func resetPeak() {
        guard let file = FileHandle(forWritingAtPath: "\(folder)/clear_refs") else { return }
        // A refusal changes only the meaning of the peak.
        try? file.write(contentsOf: Data("5".utf8))
    }

    /// The processor time of its threads, in seconds.
    var processorSeconds: Double? {
        // A folder that cannot be read means a system without these figures.
        guard let threads = try? FileManager.default.contentsOfDirectory(atPath: "\(folder)/task") else { return nil }
        let nanoseconds = threads.compactMap { thread in
            FileManager.default.contents(atPath: "\(folder)/task/\(thread)/schedstat").flatMap {
                String(decoding: $0, as: UTF8.self).split(separator: " ").first
            }.flatMap { Double($0) }
        }
        return nanoseconds.isEmpty ? nil : nanoseconds.reduce(0, +) / 1_000_000_000
    }

    private func bytes(_ name: String) -> Int? {
        guard let status = FileManager.default.contents(atPath: "\(folder)/status") else { return nil }
        let line = String(decoding: status, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix(name) }
        return line?.split(separator: " ", omittingEmptySubsequences: true).dropFirst().first.flatMap { Int($0) }.map {
            $0 << 10
        }
    }
}
