/// How many connections a server accepts, and how many of them may listen.
///
/// The system's limit of open files bounds both. Beyond the limit, accepting a connection would not fail but be retried
/// again and again. Listeners stay connected, so they must leave room for devices that sync.
struct ConnectionRoom: Hashable {
    let connections: Int
    /// The most connections of listeners and waiting requests.
    let listeners: Int
    /// The files of the store, the log and the system.
    private static let otherFiles = 128

    /// Divides the open `files` of the process between the desired connections of `syncs` and of `listeners`.
    init(syncs: Int, listeners: Int, files: Int) {
        connections = max(2, min(syncs + listeners, files - Self.otherFiles))
        self.listeners = min(listeners, connections - min(syncs, connections / 2))
    }

    /// Raises the limit of open files as far as the system allows, then divides it.
    static func request(syncs: Int, listeners: Int) -> ConnectionRoom {
        let files = OpenFiles.raise(to: syncs + listeners + otherFiles)
        return ConnectionRoom(syncs: syncs, listeners: listeners, files: files)
    }
}
