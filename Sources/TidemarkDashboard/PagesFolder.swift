internal import Foundation
internal import TidemarkCore

struct PagesFolder: Sendable {
    let path: String
    /// The names of the files; the server never shows another one of the folder.
    let names: [String]

    /// Reads the files; throws `unusableFile` if one is missing.
    func files() throws(TidemarkError) -> WebPages.Files {
        var files: [WebPages.File] = []
        for name in names {
            guard let data = FileManager.default.contents(atPath: "\(path)/\(name)") else {
                throw TidemarkError(
                    .unusableFile, "The folder of the dashboard has no file \(name).",
                    fix: "Give the folder Sources/TidemarkDashboard/Pages of a checkout, or serve without the option.")
            }
            files.append(WebPages.File(name: name, content: Array(data)))
        }
        return WebPages.Files(files)
    }
}
