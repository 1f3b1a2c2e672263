package import GRDB

/// The storage of a world's files, and the effect of a crash on them.
///
/// A world opens every file through it. After a process has ended and its connections are closed,
/// the world asks it for the rest of the file.
package protocol SimulatedStorage: AnyObject {
    /// Whether a crash can leave a file different from its last commit, so that it must be opened
    /// again.
    var forgets: Bool { get }

    /// Opens a file, and creates it if it does not exist.
    func open(_ name: String) throws -> DatabaseQueue

    /// Takes back a connection that a world no longer needs.
    func giveBack(_ name: String, _ database: DatabaseQueue) throws

    /// The path of a file for SQLite's `ATTACH`.
    func path(of name: String) -> String

    /// Handles the end of a process; all its connections to the file are closed.
    ///
    /// `decide` draws the fate of the unflushed data.
    func crash(_ name: String, decide: (Int) -> Int) throws

    /// Removes a file that no connection has open.
    func remove(_ name: String) throws

    /// Plans a failure of a later call to the disk of a file, counted from now.
    ///
    /// With `isPower` all calls after it fail too, until the file is crashed.
    func fail(_ name: String, call: Int, isPower: Bool)

    /// Ends all planned failures.
    ///
    /// - Returns: Whether the planned call came, and failed.
    func heal(_ name: String) -> Bool
}

extension SimulatedStorage {
    /// This disk does not fail.
    package func fail(_ name: String, call: Int, isPower: Bool) {}

    /// A disk without faults has no failed call.
    package func heal(_ name: String) -> Bool { false }

    /// Closes the connection.
    package func giveBack(_ name: String, _ database: DatabaseQueue) throws { try database.close() }
}
