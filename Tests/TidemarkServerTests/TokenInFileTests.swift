import Foundation
import GRDB
import Testing
import Tidemark
import TidemarkCore
import TidemarkTestSupport

/// A token is in no file but the store of tokens, and in no text that a person or a log sees.
@Suite(.timeLimit(.minutes(30))) struct TokenInFileTests {
    private static let schema = """
        CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT);
        INSERT INTO notes (text) VALUES ('first');
        """

    /// The names of the files under a folder that contain one of the texts.
    private func files(in folder: URL, containing texts: [String]) throws -> [String] {
        let names = FileManager.default.enumerator(atPath: folder.path)?.compactMap { $0 as? String } ?? []
        return try names.filter { name in
            let url = folder.appending(path: name)
            guard try url.resourceValues(forKeys: [.isRegularFileKey]).isRegularFile == true else { return false }
            let data = try Data(contentsOf: url)
            return texts.contains { data.range(of: Data($0.utf8)) != nil }
        }.sorted()
    }

    @Test func `neither SQLite files, logs, errors nor statuses hold a token`() async throws {
        let log = LogLines()
        try await MemberServer.run(schema: Self.schema, logger: log.logger) { server in
            let signIn = try await server.invite("anna")
            let store = FileTokenStore(path: server.folder.appending(path: "tokens/tokens.json").path)
            let transport = try HTTPTransport(url: server.url, credentials: .stored(in: store) { _ in signIn })
            let path = server.folder.appending(path: "anna.sqlite").path
            _ = try await DeviceFileJoin(transport: transport, server: server.url).join(path: path)
            let database = try DatabasePool(path: path)
            let engine = try await SyncEngine(database, server: server.url, transport: transport)
            try await engine.sync()
            try await database.write { try $0.execute(sql: "INSERT INTO notes (text) VALUES ('mine')") }
            try await engine.sync()
            let token = try #require(try store.token(of: server.url)?.token)
            #expect(token.hasPrefix("tmd_"))
            var texts = [String(decoding: try JSONEncoder().encode(try await engine.status()), as: UTF8.self)]
            var dumped = ""
            dump(transport, to: &dumped)
            dump(try store.token(of: server.url), to: &dumped)
            texts += [dumped, "\(transport)", "\(String(describing: try store.token(of: server.url)))"]
            // The user is refused: the device's error, its event, and the server's log.
            try await server.set("anna", isDisabled: true)
            try await database.write { try $0.execute(sql: "INSERT INTO notes (text) VALUES ('later')") }
            let error = await #expect(throws: TidemarkError.self) { try await engine.sync() }
            #expect(error?.code == .signInNeeded)
            texts += [error.debugDescription, error?.description ?? ""]
            #expect(try files(in: server.folder, containing: [token, signIn]) == ["tokens/tokens.json"])
            #expect(try files(in: server.folder, containing: [signIn]) == [])
            for secret in [token, signIn] {
                #expect(!(texts + log.all).contains { $0.contains(secret) })
            }
            try database.close()
        }
        #expect(!log.all.isEmpty)
    }

    @Test func `a sign-out ends the token at the server and in the store`() async throws {
        try await MemberServer.run(schema: Self.schema) { server in
            let signIn = try await server.invite("anna")
            let store = FileTokenStore(path: server.folder.appending(path: "tokens.json").path)
            let transport = try HTTPTransport(url: server.url, credentials: .stored(in: store) { _ in signIn })
            _ = try await transport.digest(zone: "main")
            let token = try #require(try store.token(of: server.url)?.token)
            try await transport.signOut()
            #expect(try store.token(of: server.url) == nil)
            let copy = try HTTPTransport(url: server.url, credentials: .token(token))
            let error = await #expect(throws: TidemarkError.self) { _ = try await copy.digest(zone: "main") }
            #expect(error?.code == .signInNeeded)
            let again = await #expect(throws: TidemarkError.self) { try await transport.signOut() }
            #expect(again?.code == .invalidArgument)
            let late = await #expect(throws: TidemarkError.self) { _ = try await transport.digest(zone: "main") }
            #expect(late?.code == .signInNeeded)
            #expect(late?.message.contains("this device has none") == true)
        }
    }

    @Test func `a stored token goes to its own scheme, host and port only, and over TLS to other machines`()
        async throws
    {
        let path = FileManager.default.temporaryDirectory.appending(path: "tidemark-\(UUID())/tokens.json").path
        let store = FileTokenStore(path: path)
        _ = try await store.lock(.replacing(waits: true))
        let token = StoredToken(token: "secret", user: "u", issued: 1, expires: 2, device: "d", signIn: "s")
        try await Gate.run(token: "secret") { gate in
            try store.store(token, of: "https://127.0.0.1:\(gate.port)")
            try store.store(token, of: "http://127.0.0.1:\(gate.port + 1)")
            try store.store(token, of: "http://localhost:\(gate.port)")
            try store.store(token, of: "http://sync.example.org:80")
            let transport = try HTTPTransport(url: gate.url, credentials: .stored(in: store))
            await #expect(throws: TidemarkError.self) { _ = try await transport.digest(zone: "main") }
            #expect(gate.visits.map(\.authorization) == [nil])
        }
        let plain = try HTTPTransport(url: "http://SYNC.example.org", credentials: .stored(in: store))
        let error = await #expect(throws: TidemarkError.self) { _ = try await plain.digest(zone: "main") }
        #expect(error?.code == .invalidArgument)
        #expect(error?.fix.contains("https://") == true)
        #expect(error?.description.contains("secret") == false)
    }
}
