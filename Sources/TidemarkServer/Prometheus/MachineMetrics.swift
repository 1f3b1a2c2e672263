internal import CoreMetrics
internal import Foundation
internal import TidemarkEngine

/// The metrics of a server with what its process and files take of the machine, which it reads for each answer.
public struct MachineMetrics: Sendable {
    private let registry: PrometheusRegistry
    private let started: Int64
    private let files: [String]

    /// Adds gauges to a registry.
    ///
    /// - Parameters:
    ///   - registry: The metrics of the server.
    ///   - started: When the server started, in milliseconds since 1970.
    ///   - files: The paths of the zones' files, and of folders with such files; none for a database elsewhere.
    public init(_ registry: PrometheusRegistry, started: Int64, files: [String]) {
        self.registry = registry
        self.started = started
        self.files = files
    }

    /// Renders all metrics of the registry, as ``PrometheusRegistry/text()`` does.
    @Sendable public func text() -> String {
        set(.startTime, Double(started) / 1_000)
        // Not every system tells it.
        if let bytes = Self.residentBytes { set(.residentMemory, bytes) }
        if let first = files.first {
            let sizes = files.flatMap(Self.sizes)
            set(.dataSize, sizes.map(\.bytes).reduce(0, +))
            // SQLite empties a log only while no program reads an older state, so a stuck reader lets it grow.
            set(.unmergedBytes, sizes.filter { $0.path.hasSuffix("-wal") }.map(\.bytes).reduce(0, +))
            // A disk that cannot be read has no figures; `/readyz` tells that the store fails.
            let disk = try? FileManager.default.attributesOfFileSystem(forPath: first)
            if let free = disk?[.systemFreeSize] as? NSNumber { set(.diskFree, free.doubleValue) }
            if let size = disk?[.systemSize] as? NSNumber { set(.diskSize, size.doubleValue) }
        }
        return registry.text()
    }

    /// The memory of the process, as Linux tells it; nil elsewhere.
    private static var residentBytes: Double? {
        let status = FileManager.default.contents(atPath: "/proc/self/status") ?? Data()
        let line = String(decoding: status, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
        return line?.split(separator: " ").dropFirst().first.flatMap { Double($0) }.map { $0 * 1_024 }
    }

    private func set(_ definition: MetricDefinition, _ value: Double) {
        Meter(label: definition.name, factory: registry).set(value)
    }

    /// The sizes of a file and its -wal, or of a folder's files.
    private static func sizes(_ path: String) -> [(path: String, bytes: Double)] {
        // A path without a folder behind it is a file's.
        let names = try? FileManager.default.contentsOfDirectory(atPath: path)
        let paths = names.map { $0.map { "\(path)/\($0)" } } ?? [path, "\(path)-wal"]
        return paths.map { path in
            // A file that is not there, such as the -wal of a closed one, takes nothing.
            let attributes = try? FileManager.default.attributesOfItem(atPath: path)
            return (path, (attributes?[.size] as? NSNumber)?.doubleValue ?? 0)
        }
    }
}
