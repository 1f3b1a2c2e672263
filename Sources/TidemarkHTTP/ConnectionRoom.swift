/// How many connections a server takes, and how many of them may listen: what it wants, as far as
/// the system lets the process have so many files open.
///
/// Accepting one more than that would not fail but be tried again and again; and listeners, who
/// stay, must leave room for those who sync.
struct ConnectionRoom: Hashable {
    /// The connections at a time.
    let connections: Int
    /// Those of them that may listen, or wait.
    let listeners: Int

    /// The files that the store, the log and the system's own needs take.
    private static let otherFiles = 128

    /// Divides what there is.
    ///
    /// - Parameters:
    ///   - syncs: The connections wanted besides those of listeners.
    ///   - listeners: The listeners wanted.
    ///   - files: The files that the process may have open.
    init(syncs: Int, listeners: Int, files: Int) {
        connections = max(2, min(syncs + listeners, files - Self.otherFiles))
        self.listeners = min(listeners, connections - min(syncs, connections / 2))
    }

    /// Divides what the system grants when it is asked for as much as is wanted.
    static func granted(syncs: Int, listeners: Int) -> ConnectionRoom {
        let files = OpenFiles.raise(to: syncs + listeners + otherFiles)
        return ConnectionRoom(syncs: syncs, listeners: listeners, files: files)
    }
}
