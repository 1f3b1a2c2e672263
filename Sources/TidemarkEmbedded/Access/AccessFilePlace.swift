import Foundation

/// The place of the file with users, tokens and members, beside the files that a server serves.
package enum AccessFilePlace {
    private static let name = "access.sqlite"
    private static let suffix = "-access"

    package static func path(inFolder folder: String) -> String { "\(folder)/\(name)" }

    /// A data folder's zone file has the folder's access file, so that its users count when the zone is served alone.
    package static func path(besideFile file: String) -> String {
        let url = URL(filePath: file)
        let inFolder = url.deletingLastPathComponent().appending(path: name).path
        let isFolderZone = url.lastPathComponent == "\(EmbeddedStore.zoneName).sqlite"
        return isFolderZone && exists(inFolder) ? inFolder : file + suffix
    }

    package static func exists(_ path: String) -> Bool { FileManager.default.fileExists(atPath: path) }
}
