import Foundation

/// What the system tells of a process: its memory and its processor time, on Linux.
struct ProcessStatus: Sendable {
    /// The process's folder in `/proc`.
    private let folder: String

    /// This process.
    static let own = ProcessStatus(folder: "/proc/self")

    /// A process by its number.
    init(_ process: Int32) { self.init(folder: "/proc/\(process)") }

    private init(folder: String) { self.folder = folder }

    /// The memory that it has, in bytes; nil where the system does not tell, or it has ended.
    var residentBytes: Int? { bytes("VmRSS:") }

    /// The most memory that it has had at a time, in bytes.
    var peakBytes: Int? { bytes("VmHWM:") }

    /// Begins the peak anew; where that cannot be done, the peak is that of all its life.
    func resetPeak() {
        guard let file = FileHandle(forWritingAtPath: "\(folder)/clear_refs") else { return }
        // Refused, it changes nothing but what the peak means.
        try? file.write(contentsOf: Data("5".utf8))
    }

    /// The processor time of its threads, in seconds.
    var processorSeconds: Double? {
        // A folder that cannot be read is one of a system that does not tell.
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
