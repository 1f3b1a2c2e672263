import Foundation
import TidemarkCore

/// A folder beside a file that is being made, for all that the file is made of.
///
/// It is on the same disk, so that the file gets its name at once when it is whole. It has a name
/// that nothing else has, so that no file which is there already is read or removed, and nobody
/// else may look into it.
struct ScratchFolder: Sendable {
    private let folder: String

    /// Makes the folder for a file at `path`, if nothing is there yet.
    init(for path: String, id: UUID) throws {
        guard !FileManager.default.fileExists(atPath: path) else {
            throw TidemarkError(
                .unusableFile,
                "\(path) exists already.",
                fix:
                    "Choose another name; a file that has joined is synced with `tidemark device sync`."
            )
        }
        folder = "\(path).\(id.uuidString.lowercased())"
        guard mkdir(folder, 0o700) == 0 else {
            throw PartFile.unwritable(folder, String(cString: strerror(errno)))
        }
    }

    /// The path of a file in it.
    func path(_ name: String) -> String { "\(folder)/\(name)" }

    /// Removes the folder with everything in it.
    func remove() {
        do {
            try FileManager.default.removeItem(atPath: folder)
        } catch {
            // What the file was made of harms nobody who finds it, and its name says whose it is.
            return
        }
    }
}
