import Foundation

/// The place of the file with users, tokens and members, beside the files that a server serves.
package enum AccessFilePlace {
    private static let name = "access.sqlite"
    private static let suffix = "-access"

    /// Returns the path in a data folder.
    package static func path(inFolder folder: String) -> String { "\(folder)/\(name)" }

    /// Returns the path beside a served file.
    ///
    /// The zone's file of a data folder has the folder's access file, so that the folder's users also
    /// count for a server that serves the file by itself.
    package static func path(besideFile file: String) -> String {
        let url = URL(filePath: file)
        let inFolder = url.deletingLastPathComponent().appending(path: name).path
        let isFolderZone = url.lastPathComponent == "\(EmbeddedStore.zoneName).sqlite"
        return isFolderZone && exists(inFolder) ? inFolder : file + suffix
    }

    /// Whether there is such a file.
    package static func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }
}
