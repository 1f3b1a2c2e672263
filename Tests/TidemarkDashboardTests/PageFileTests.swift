import Foundation
import Testing
import TidemarkCore

@testable import TidemarkDashboard

/// The files of the dashboard as they are: small, safe and readable.
@Suite struct PageFileTests {
    private static let files: [WebPages.File] = WebPages.embeddedFiles
    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "Sources/TidemarkDashboard/Pages")

    private static func text(_ file: WebPages.File) -> String { String(decoding: file.content, as: UTF8.self) }

    @Test func `every file of the folder is in the program, and no other`() throws {
        let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(names.sorted() == Self.files.map(\.name).sorted())
    }

    @Test func `the dashboard stays below 69 KiB, and the small client below 10 KiB`() {
        let client = Self.files.filter { $0.name == WebPages.clientName }
        #expect(client.count == 1)
        #expect(client.allSatisfy { $0.content.count <= 10 << 10 })
        let others = Self.files.filter { $0.name != WebPages.clientName }
        #expect(others.map(\.content.count).reduce(0, +) <= 69 << 10)
    }

    @Test(arguments: [
        "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc",
    ])
    func `no module can turn a value into markup or code`(name: String) {
        for file in Self.files { #expect(!Self.text(file).contains(name), "\(file.name)") }
    }

    @Test func `nothing comes from elsewhere`() {
        for file in Self.files where file.name != WebPages.clientName {
            let text = Self.text(file).replacing("http://www.w3.org/2000/svg", with: "")
            #expect(!text.contains(/https?:/), "\(file.name)")
        }
    }

    @Test func `no line is wider than half a screen`() {
        for file in Self.files {
            for line in Self.text(file).split(separator: "\n") where line.count > 120 {
                Issue.record("\(file.name): \(line.prefix(60))")
            }
        }
    }

    @Test func `the version changes with any file`() {
        let files = Self.files
        let tag = WebPages.Files(files).entityTag
        #expect(tag == WebPages.Files(files).entityTag)
        #expect(tag.wholeMatch(of: /W\/"[0-9a-f]{16}"/) != nil)
        var other = files
        other[3] = WebPages.File(name: files[3].name, content: files[3].content + [32])
        #expect(WebPages.Files(other).entityTag != tag)
    }

    @Test func `a folder without one of the files is refused, by the name of the file`() throws {
        let error = #expect(throws: TidemarkError.self) { _ = try WebPages(folder: "/nowhere") }
        #expect(error?.code == .unusableFile)
        #expect(error?.message.contains("app.js") == true)
        #expect(try WebPages(folder: Self.folder.path).files().entityTag == WebPages.embedded.files().entityTag)
    }
}
