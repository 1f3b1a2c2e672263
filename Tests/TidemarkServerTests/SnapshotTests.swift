import AsyncHTTPClient
import Foundation
import NIOCore
import Testing
import TidemarkCore
import TidemarkEngine
import TidemarkTestSupport

/// The snapshot as a stream off the disk.
@Suite struct SnapshotTests {
    @Test func `a snapshot of five megabytes arrives as on disk`() async throws {
        try await withFile(noise(count: 5 << 20)) { snapshot in
            let service = ScriptedService(snapshot: snapshot)
            try await TestServer.run(service) { server in
                let answer = try await server.send(.GET, "/snapshot", headers: ["Accept-Encoding": "gzip"])
                #expect(answer.status == 200)
                #expect(answer.headers.first(name: "Content-Type") == "application/gzip")
                #expect(answer.headers.first(name: "Content-Encoding") == nil)
                #expect(answer.headers.first(name: "Content-Length") == "\(5 << 20)")
                #expect(answer.headers.first(name: "Tidemark-Epoch") == "e1")
                #expect(answer.headers.first(name: "Tidemark-Revision") == "42")
                #expect(answer.headers.first(name: "ETag") == "\"\(snapshot.tag)\"")
                #expect(answer.headers.first(name: "Accept-Ranges") == "bytes")
                #expect(answer.body == noise(count: 5 << 20))
                let line = await server.log.first(containing: "answered bytes=\(5 << 20)")
                #expect(line != nil)
            }
            #expect(await service.releases.first { _ in true } == snapshot)
        }
    }

    @Test func `a client that disconnects half-way releases its snapshot`() async throws {
        // More than the buffers of two sockets hold.
        try await withFile(noise(count: 40 << 20)) { snapshot in
            let service = ScriptedService(snapshot: snapshot)
            try await TestServer.run(service) { server in
                let request = HTTPClientRequest(url: server.url + "/zones/main/snapshot")
                let reading = Task {
                    let response = try await HTTPClient.shared.execute(request, timeout: .minutes(10))
                    var pieces = response.body.makeAsyncIterator()
                    #expect(try await pieces.next() != nil)
                    throw CancellationError()
                }
                _ = await reading.result
                #expect(await service.releases.first { _ in true } == snapshot)
                let line = await server.log.first(containing: "cut off")
                #expect(line != nil)
            }
        }
    }

    @Test func `HEAD describes a snapshot and releases it`() async throws {
        try await withFile(noise(count: 1_000)) { snapshot in
            let service = ScriptedService(snapshot: snapshot)
            try await TestServer.run(service) { server in
                let answer = try await server.send(.HEAD, "/snapshot")
                #expect(answer.status == 200)
                #expect(answer.headers.first(name: "Content-Length") == "1000")
                #expect(answer.body.isEmpty)
                #expect(await service.releases.first { _ in true } == snapshot)
            }
        }
    }

    @Test func `a vanished snapshot file is a defect, and the answer reveals no path`() async throws {
        let snapshot = SnapshotFile(path: "/nowhere/secret.gz", byteCount: 10, epoch: "e1", revision: 42, hash: "00")
        let service = ScriptedService(snapshot: snapshot)
        try await TestServer.run(service) { server in
            let answer = try await server.send(.GET, "/snapshot")
            #expect(answer.status == 500)
            #expect(try answer.error.code == .internalFailure)
            #expect(!answer.text.contains("secret.gz"))
            #expect(server.log.all.contains { $0.contains("secret.gz") })
            #expect(await service.releases.first { _ in true } == snapshot)
        }
    }

    @Test func `a deleted snapshot file is built again for the next request`() async throws {
        let cluster = try Cluster(
            schema: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)",
            seed: "INSERT INTO notes VALUES (1, 'first')")
        try await TestServer.run(cluster.service) { server in
            #expect(try await server.send(.GET, "/snapshot").status == 200)
            let names = try FileManager.default.contentsOfDirectory(atPath: cluster.folder.path).filter {
                $0.hasSuffix(".gz")
            }
            #expect(names.count == 1)
            for name in names { try FileManager.default.removeItem(at: cluster.folder.appending(path: name)) }
            let again = try await server.send(.GET, "/snapshot")
            #expect(again.status == 200)
            #expect(again.headers.first(name: "Tidemark-Revision") == "1")
        }
    }

    @Test func `an unknown zone gets the service's error`() async throws {
        try await TestServer.run(ScriptedService()) { server in
            let answer = try await server.send(.GET, "/zones/n%C3%B6/snapshot")
            #expect(answer.status == 404)
            #expect(try answer.error.message == "No zone nö.")
        }
    }

    private func withFile(_ bytes: [UInt8], body: (SnapshotFile) async throws -> Void) async throws {
        try await withTemporaryDirectory { directory in try await body(try snapshotFile(bytes, in: directory)) }
    }
}

/// Writes a snapshot file, and returns a store's description of it.
func snapshotFile(_ bytes: [UInt8], in directory: String, name: String = "snapshot.gz", revision: Int64 = 42) throws
    -> SnapshotFile
{
    let path = directory + "/" + name
    try Data(bytes).write(to: URL(fileURLWithPath: path))
    return SnapshotFile(
        path: path, byteCount: Int64(bytes.count), epoch: "e1", revision: revision, hash: "\(bytes.hashValue)")
}

/// Runs `body` with a temporary directory.
func withTemporaryDirectory(_ body: (String) async throws -> Void) async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    let result: Result<Void, any Error>
    do { result = .success(try await body(directory.path)) } catch { result = .failure(error) }
    try FileManager.default.removeItem(at: directory)
    try result.get()
}
