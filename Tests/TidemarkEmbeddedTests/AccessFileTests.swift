import Foundation
import GRDB
import Testing
import TidemarkCore
import TidemarkEmbedded
import TidemarkEngine
import TidemarkTestSupport

/// The file of users: who may read it, what it survives, and files that are none.
@Suite struct AccessFileTests {
    private func newPath() throws -> String { try TestZone.newFolder().appending(path: "access.sqlite").path }

    private func permissions(_ path: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    @Test func `only the server's account may read the file and its side files`() async throws {
        let path = try newPath()
        let file = try AccessFile(path: path)
        try await AccessBench(file).add("anna")
        for suffix in ["", "-wal", "-shm"] { #expect(try permissions(path + suffix) == 0o600, "\(suffix)") }
        try file.close()
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        let again = try AccessFile(path: path)
        try await AccessBench(again).add("ben")
        for suffix in ["", "-wal", "-shm"] { #expect(try permissions(path + suffix) == 0o600, "\(suffix)") }
        try again.close()
    }

    @Test func `an acknowledged change is flushed to the disk`() async throws {
        let file = try AccessFile(path: try newPath())
        let settings = try await file.transaction { statements in
            try ["synchronous", "journal_mode", "foreign_keys"].map {
                try statements.rows("PRAGMA \($0)", [])[0].text(0)
            }
        }
        #expect(settings == ["2", "wal", "1"])
        try file.close()
    }

    @Test(arguments: ["missing/access.sqlite", "file/access.sqlite", "folder"])
    func `a place where no file can be is named, with the cure`(place: String) throws {
        let folder = try TestZone.newFolder()
        try Data("text".utf8).write(to: folder.appending(path: "file"))
        try FileManager.default.createDirectory(
            at: folder.appending(path: "folder"), withIntermediateDirectories: false)
        let path = folder.appending(path: place).path
        let error = #expect(throws: TidemarkError.self) { try AccessFile(path: path) }
        #expect(error?.code == .storageFailed)
        #expect(error?.message.contains(path) == true)
        #expect(error?.fix.isEmpty == false)
    }

    @Test func `a folder in which SQLite cannot make its side files is named`() throws {
        let path = try newPath()
        try AccessFile(path: path).close()
        // A folder in the place of the side file stands for a folder without permission, which root ignores.
        try FileManager.default.createDirectory(atPath: path + "-wal", withIntermediateDirectories: false)
        let error = #expect(throws: TidemarkError.self) { try AccessFile(path: path) }
        #expect(error?.code == .storageFailed)
        #expect(error?.message.contains(path) == true)
    }

    @Test func `a file that is no database stays as it is`() throws {
        let path = try newPath()
        let text = Data("Dear diary, today I wrote a text that is longer than a database's header.".utf8)
        try text.write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        let error = #expect(throws: TidemarkError.self) { try AccessFile(path: path) }
        #expect(error?.code == .fileDamaged)
        #expect(try Data(contentsOf: URL(filePath: path)) == text)
        #expect(try permissions(path) == 0o644)
    }

    @Test(arguments: ["CREATE TABLE notes (id)", "CREATE TABLE tidemark_zone (id)"])
    func `a database of something else stays as it is`(sql: String) async throws {
        let path = try newPath()
        let other = try DatabaseQueue(path: path)
        try await other.write { try $0.execute(sql: sql) }
        try other.close()
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
        let before = try Data(contentsOf: URL(filePath: path))
        let error = #expect(throws: TidemarkError.self) { try AccessFile(path: path) }
        #expect(error?.code == .unusableFile)
        #expect(try Data(contentsOf: URL(filePath: path)) == before)
        #expect(try permissions(path) == 0o644)
        #expect(!FileManager.default.fileExists(atPath: path + "-wal"))
    }

    @Test(arguments: [(1, "earlier"), (AccessTables.layout + 1, "later")])
    func `a file of another version is refused`(layout: Int, version: String) async throws {
        let path = try newPath()
        try AccessFile(path: path).close()
        let later = try DatabaseQueue(path: path)
        try await later.writeWithoutTransaction {
            try $0.execute(sql: "PRAGMA user_version = \(layout)")
        }
        try later.close()
        let error = #expect(throws: TidemarkError.self) { try AccessFile(path: path) }
        #expect(error?.code == .unusableFile)
        #expect(error?.message.contains("\(version) version") == true)
    }

    @Test(arguments: ["", "-wal"]) func `a file that is moved away under the server admits nobody`(suffix: String)
        async throws
    {
        let path = try newPath()
        let file = try AccessFile(path: path)
        let bench = AccessBench(file)
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        // The second time the gate remembers the token.
        for _ in 0..<2 { #expect(try await bench.refusal(of: phone) == nil) }
        try FileManager.default.moveItem(atPath: path + suffix, toPath: path + suffix + "-away")
        #expect(try await bench.refusal(of: phone) == .storageFailed)
        let error = await #expect(throws: TidemarkError.self) { try await bench.members { try $0.add("ben") } }
        #expect(error?.code == .storageFailed)
        #expect(error?.message.contains("The file of users") == true)
        #expect(error?.description.contains(path) == false, "clients read it")
        try FileManager.default.moveItem(atPath: path + suffix + "-away", toPath: path + suffix)
        #expect(try await bench.refusal(of: phone) == nil)
        try file.close()
    }

    @Test func `an acknowledged revocation is there again after the server was killed`() async throws {
        let path = try newPath()
        let file = try AccessFile(path: path)
        let bench = AccessBench(file)
        try await bench.add("anna")
        let phone = try await bench.device("phone", of: "anna")
        #expect(try await bench.user(phone) == "anna")
        try await bench.gate.revoke(phone)
        // A copy of the files at this moment is what a killed process leaves behind.
        let copy = try newPath()
        for suffix in ["", "-wal"] { try FileManager.default.copyItem(atPath: path + suffix, toPath: copy + suffix) }
        let reopened = try AccessFile(path: copy)
        let later = bench.node(reopened)
        #expect(try await later.user(phone) == nil)
        #expect(try await later.content() == bench.content())
        try reopened.close()
        try file.close()
    }
}
