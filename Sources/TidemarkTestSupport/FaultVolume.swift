import CFaultVFS
public import GRDB
import Synchronization

/// A disk in memory whose calls fail on demand, and whose power goes.
///
/// Every file that SQLite opens at ``path(of:)`` is on it: a queue, a pool, an attached file.
/// Volumes are independent, so runs on several threads each use their own.
///
/// ```swift
/// let disk = try FaultVolume()
/// let database = try DatabaseQueue(path: disk.path(of: "device.sqlite"))
/// disk.fail(.io, call: 7)
/// ...
/// disk.crash(seed: 42)         // connections from before are dead; open new ones
/// ```
public final class FaultVolume: @unchecked Sendable {
    // The volume in C guards itself with a mutex; the pointer to it never changes.
    private let volume: OpaquePointer
    /// The name, which is part of every path.
    public let name: String

    private static let number = Atomic<Int>(0)

    /// Makes an empty volume under a name of its own.
    ///
    /// - Throws: ``FaultVolumeUnavailable`` when SQLite does not take the VFS.
    public init() throws {
        guard fault_vfs_register() == 0 else { throw FaultVolumeUnavailable() }
        name = "volume-\(Self.number.add(1, ordering: .relaxed).newValue)"
        guard let volume = fault_volume_create(name) else { throw FaultVolumeUnavailable() }
        self.volume = volume
    }

    deinit { fault_volume_destroy(volume) }

    /// Fixes SQLite's own random numbers and time, in the whole process.
    public static func fixSystem(seed: UInt64) throws {
        guard fault_vfs_fix(seed) == 0 else { throw FaultVolumeUnavailable() }
    }

    // MARK: Faults

    /// How a call fails.
    public enum Fault: Hashable, Sendable {
        /// The medium reports an error (`EIO`).
        case io
        /// The disk is full (`ENOSPC`).
        case full
        /// The power is gone: nothing works any more until ``FaultVolume/crash(seed:)``.
        case power

        fileprivate var code: Int32 {
            switch self {
            case .io: Int32(FAULT_IO)
            case .full: Int32(FAULT_FULL)
            case .power: Int32(FAULT_POWER)
            }
        }
    }

    /// Kinds of SQLite's calls to the disk.
    public struct Calls: OptionSet, Sendable {
        /// The bits, as in C.
        public let rawValue: Int

        /// Makes a set from bits.
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// Opening and creating files.
        public static let open = Calls(rawValue: FAULT_CALL_OPEN)
        /// Reading.
        public static let read = Calls(rawValue: FAULT_CALL_READ)
        /// Writing.
        public static let write = Calls(rawValue: FAULT_CALL_WRITE)
        /// Truncating.
        public static let truncate = Calls(rawValue: FAULT_CALL_TRUNCATE)
        /// Flushing to the medium.
        public static let sync = Calls(rawValue: FAULT_CALL_SYNC)
        /// Removing files.
        public static let delete = Calls(rawValue: FAULT_CALL_DELETE)
        /// Locking files.
        public static let lock = Calls(rawValue: FAULT_CALL_LOCK)
        /// Mapping and locking the memory that connections in WAL mode share.
        public static let share = Calls(rawValue: FAULT_CALL_SHARE)
        /// Asking for existence and size.
        public static let look = Calls(rawValue: FAULT_CALL_LOOK)

        /// The calls that need room on the disk.
        public static let growing: Calls = [.open, .write, .sync, .share]
        /// Every kind.
        public static let all: Calls = [.open, .read, .write, .truncate, .sync, .delete, .lock, .share, .look]
    }

    /// Plans a failure of a call, counted from 1 as from now among the calls of the given kinds.
    ///
    /// With `onwards`, all later ones fail as well. The plan replaces an earlier one.
    public func fail(_ fault: Fault, call number: Int, of calls: Calls = .all, onwards: Bool = false) {
        fault_volume_fail(volume, UInt32(calls.rawValue), UInt64(number), onwards, fault.code)
    }

    /// Ends the plan; counts calls of the given kinds from 0.
    public func heal(counting calls: Calls = .all) {
        fault_volume_fail(volume, UInt32(calls.rawValue), 0, false, Int32(FAULT_NONE))
    }

    /// The number of calls of the kinds last given to ``fail(_:call:of:onwards:)`` or
    /// ``heal(counting:)``, since then.
    public var callCount: Int { Int(fault_volume_calls(volume)) }

    /// The number of calls that have failed by the plan.
    public var failureCount: Int { Int(fault_volume_failures(volume)) }

    /// Limits the bytes of all files together; nil is no limit.
    public func limit(bytes: Int?) { fault_volume_set_capacity(volume, bytes.map { Int64($0) } ?? .max) }

    /// The bytes of all files together.
    public var usedBytes: Int { Int(fault_volume_used(volume)) }

    /// Lets flushes succeed without an effect, as a lying disk or a forgotten flush would.
    public func ignoreSyncs(_ ignores: Bool) { fault_volume_ignore_syncs(volume, ignores) }

    /// Cuts the power and restores it.
    ///
    /// Unflushed data is kept, lost, torn or garbled, as the seed decides. Earlier connections are
    /// dead, and the plan is over.
    public func crash(seed: UInt64) { fault_volume_crash(volume, seed) }

    // MARK: Files

    /// The path under which SQLite finds a file of this volume.
    public func path(of file: String) -> String { "/tidemark-fault/\(name)/\(file)" }

    /// The names of all files.
    public var files: [String] {
        var names: [String] = []
        while let name = fault_volume_file(volume, Int32(names.count)) { names.append(String(cString: name)) }
        return names.sorted()
    }

    /// The content of a file; nil if it does not exist.
    public func contents(of file: String) -> [UInt8]? {
        let count = fault_volume_size(volume, file)
        guard count >= 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(count))
        _ = fault_volume_read(volume, file, 0, &bytes, count)
        return bytes
    }

    /// Writes a file, flushed; nil removes it.
    ///
    /// Connections to the old file keep the old one.
    public func replace(_ file: String, with bytes: [UInt8]?) throws {
        let isDone =
            if let bytes {
                // An empty array has no address, and no address means removal.
                (bytes.isEmpty ? [0] : bytes).withUnsafeBytes {
                    fault_volume_replace(volume, file, $0.baseAddress, Int64(bytes.count))
                }
            } else { fault_volume_replace(volume, file, nil, 0) }
        guard isDone else { throw FaultVolumeUnavailable() }
    }

    /// Opens a database on the volume.
    public func database(_ file: String, configuration: Configuration = Configuration()) throws -> DatabaseQueue {
        try DatabaseQueue(path: path(of: file), configuration: configuration)
    }
}

/// SQLite does not take the VFS, or there is no memory for it.
public struct FaultVolumeUnavailable: Error {}
