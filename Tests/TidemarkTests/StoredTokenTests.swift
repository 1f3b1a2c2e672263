import Foundation
import Testing
@testable import Tidemark
import TidemarkCore

/// The age of a device's token, and the file that keeps it.
@Suite struct StoredTokenTests {
    @Test(arguments: [
        (issued: 0, expires: 90, day: 59, isAgeing: false), (0, 90, 60, true), (0, 90, 1_000, true),
        // The device's clock is ahead of the server's: it rotates after two thirds of a day.
        (200, 90, 200, false), (200, 90, 201, true), (200, 90, 100, false),
    ]) func `a token ages in the last third of its life, by the device's clock`(
        issued: Int64, expires: Int64, day: Int64, isAgeing: Bool
    ) {
        let length: Int64 = 86_400_000
        let token = StoredToken(
            token: "t", user: "anna", issued: issued * length, expires: expires * length, device: "d", signIn: "s")
        #expect(token.isAgeing(at: day * length) == isAgeing)
        #expect(!"\(token)".contains("token: t"))
    }

    @Test func `extreme times in a damaged file end no process`() {
        for (issued, expires) in [(Int64.min, Int64.max), (.max, .min), (.min, .min), (.max, .max)] {
            let token = StoredToken(token: "t", user: "u", issued: issued, expires: expires, device: "d", signIn: "s")
            for time in [Int64.min, 0, .max] { _ = token.isAgeing(at: time) }
            #expect(token.isAgeing(at: issued) == false)
        }
    }

    @Test(arguments: [
        ("tmu_abc_def", "abc"), ("tmd_abc_def", nil), ("tmu_abc", nil), ("tmu__x", nil), ("tmu_a_b_c", nil), ("", nil),
    ]) func `a sign-in token is known by its form`(text: String, id: String?) {
        #expect(SignInToken.id(of: text) == id)
    }

    // MARK: The file

    private static func token(_ secret: String) -> StoredToken {
        StoredToken(token: secret, user: "anna", issued: 1, expires: 2, device: "d", signIn: "s")
    }

    private static func newPath() -> String {
        FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())/tidemark/tokens.json").path
    }

    @Test func `tokens of several servers are kept apart, and only their owner can read them`() async throws {
        let path = Self.newPath()
        let store = FileTokenStore(path: path)
        #expect(try store.token(of: "https://a:443") == nil)
        #expect(try await store.lock(.sending) != nil)
        #expect(!FileManager.default.fileExists(atPath: path + ".lock"), "a request alone makes no files")
        let lock = try await store.lock(.replacing(waits: true))
        try store.store(Self.token("one"), of: "https://a:443")
        try store.store(Self.token("two"), of: "https://b:443")
        lock?.release()
        #expect(try store.token(of: "https://a:443")?.token == "one")
        #expect(try FileTokenStore(path: path).token(of: "https://b:443")?.token == "two")
        let folder = URL(fileURLWithPath: path).deletingLastPathComponent().path
        for (file, mode) in [(path, 0o600), (path + ".lock", 0o600), (folder, 0o700)] {
            let attributes = try FileManager.default.attributesOfItem(atPath: file)
            #expect(attributes[.posixPermissions] as? Int == mode, "\(file)")
        }
        try store.store(nil, of: "https://a:443")
        #expect(try store.token(of: "https://a:443") == nil)
        #expect(try store.token(of: "https://b:443") != nil)
    }

    @Test(arguments: [0o644, 0o640, 0o602, 0o601]) func `a file that others can use is refused, with the cure`(
        mode: Int
    ) async throws {
        let path = Self.newPath()
        let store = FileTokenStore(path: path)
        _ = try await store.lock(.replacing(waits: true))
        try store.store(Self.token("secret-text"), of: "https://a:443")
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        for work in [
            { _ = try store.token(of: "https://a:443") }, { try store.store(Self.token("x"), of: "https://a:443") },
        ] {
            let error = #expect(throws: TidemarkError.self) { try work() }
            #expect(error?.code == .unusableFile)
            #expect(error?.fix.contains("chmod 600") == true)
            #expect(error?.description.contains("secret-text") == false)
        }
    }

    @Test(arguments: ["", "{", "[]", #"{"https://a:443":{"token":"secret-text"}}"#])
    func `a damaged file is refused, and not repeated`(content: String) async throws {
        let path = Self.newPath()
        let store = FileTokenStore(path: path)
        _ = try await store.lock(.replacing(waits: true))
        #expect(
            FileManager.default.createFile(
                atPath: path, contents: Data(content.utf8), attributes: [.posixPermissions: 0o600]))
        let error = #expect(throws: TidemarkError.self) { try store.token(of: "https://a:443") }
        #expect(error?.code == .unusableFile)
        #expect(error?.description.contains("secret-text") == false)
    }

    @Test func `a lock for replacing tokens excludes the ones for sending`() async throws {
        let store = FileTokenStore(path: Self.newPath())
        let replacing = try #require(try await store.lock(.replacing(waits: false)))
        try store.store(Self.token("one"), of: "https://a:443")
        #expect(try await store.lock(.replacing(waits: false)) == nil)
        replacing.release()
        let first = try #require(try await store.lock(.sending))
        let second = try #require(try await store.lock(.sending))
        #expect(try await store.lock(.replacing(waits: false)) == nil)
        first.release()
        first.release()
        #expect(try await store.lock(.replacing(waits: false)) == nil)
        second.release()
        #expect(try await store.lock(.replacing(waits: false)) != nil)
    }
}
