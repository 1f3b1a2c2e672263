package import GRDB

/// Where the files of a world lie, and what a crash does to them.
///
/// The seam for storage that fails: a world opens every file through it, and after a process has
/// ended and its connections are closed, asks it what is left.
package protocol SimulatedStorage: AnyObject {
    /// Whether a crash can leave a file other than its last commit did, so that it has to be opened
    /// anew after each one.
    var forgets: Bool { get }

    /// Opens a file, which is made if it is not there.
    func open(_ name: String) throws -> DatabaseQueue

    /// Takes back a connection that a world no longer needs.
    func giveBack(_ name: String, _ database: DatabaseQueue) throws

    /// The path under which SQLite finds a file, for `ATTACH`.
    func path(of name: String) -> String

    /// A process has ended; all its connections to the file are closed.
    ///
    /// `decide` draws what becomes of what was not synced to the disk.
    func crash(_ name: String, decide: (Int) -> Int) throws

    /// Removes a file; nobody has it open.
    func remove(_ name: String) throws

    /// Lets a call to the disk of a file fail, counted from now; with `isPower` all later ones,
    /// until the file is crashed.
    func fail(_ name: String, call: Int, isPower: Bool)

    /// Lets nothing fail any more.
    ///
    /// - Returns: Whether the planned call came, and failed.
    func heal(_ name: String) -> Bool
}

extension SimulatedStorage {
    /// This disk does not fail.
    package func fail(_ name: String, call: Int, isPower: Bool) {}

    /// Nothing has failed.
    package func heal(_ name: String) -> Bool { false }

    /// Closes the connection.
    package func giveBack(_ name: String, _ database: DatabaseQueue) throws { try database.close() }
}
