import Foundation
import Testing

extension IntegrationTests {
    /// Rule 8: real pages in a real Chromium against a server on the same machine.
    @Suite(.enabled(if: Tool.chromium.isThere, "there is no Chromium here; Scripts/setup.sh tests installs it"))
    struct BrowserTests {
        private static let schema = """
            CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
            INSERT INTO notes VALUES (1, 'first');
            """

        /// A script that writes without asking first, as any page may, and tries to read.
        private static func script(_ server: Server) -> String {
            let body =
                #"{"maxRevision":1,"changeSets":[{"notes":{"create":[-1],"delete":[],"attributes":{"-1":{"text":"by a page"}}}}]}"#
            return """
                const said = [];
                const write = { method: 'POST', mode: 'no-cors', body: '\(body)' };
                try { await fetch('\(server.url)/sync', write); said.push('sent'); }
                catch { said.push('not sent'); }
                try { said.push('read ' + (await fetch('\(server.url)/schema')).status); }
                catch { said.push('nothing read'); }
                return said.join(', ');
                """
        }

        private static func chromium(_ workshop: Workshop, _ arguments: String...) throws -> Program {
            try workshop.start(
                try #require(Tool.chromium.path),
                [
                    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                    "--user-data-dir=\(workshop.path("browser"))",
                ] + arguments
            )
        }

        /// Opens the page of another server, and returns what its script reports.
        private static func visit(_ address: String, _ pages: PageServer, _ workshop: Workshop) async throws -> String {
            let browser = try chromium(workshop, address)
            let watch = Task {
                let result = try await browser.finished()
                pages.endReports()
                return result
            }
            let report = await pages.report()
            browser.signalled(SIGTERM)
            let result = try await watch.value
            return try #require(report, "\(result.errors)")
        }

        private static func refusals(_ workshop: Workshop, _ server: Server) async throws -> String {
            let page = try await workshop.run("curl", "-sS", "\(server.url)/metrics").output
            let line = page.split(separator: "\n").first { $0.contains(#"code="originRefused""#) }
            return line?.split(separator: " ").last.map(String.init) ?? "0"
        }

        @Test(arguments: ["127.0.0.1", "localhost"])
        func `a page of a foreign origin in Chromium can neither write to nor read from a server`(host: String)
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            let pages = try await PageServer.start()
            pages.show(Self.script(server))
            let report = try await Self.visit("http://\(host):\(pages.port)/", pages, workshop)
            // Chromium did send both: what refused them was the server.
            #expect(report == "sent, nothing read")
            #expect(try await Self.refusals(workshop, server) == "2")
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT text FROM notes") == "first")
            try await pages.stop()
            try await server.stopped()
        }

        @Test func `a page of an allowed origin in Chromium can write and read`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let pages = try await PageServer.start()
            let server = try await workshop.serve([
                "serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0", "--allow-origin",
                "http://127.0.0.1:\(pages.port)",
            ])
            pages.show(Self.script(server))
            let report = try await Self.visit("http://127.0.0.1:\(pages.port)/", pages, workshop)
            #expect(report == "sent, read 200")
            #expect(try await Self.refusals(workshop, server) == "0")
            #expect(
                try await workshop.sqlite3("zone.sqlite", "SELECT text FROM notes ORDER BY id") == "first\nby a page")
            try await pages.stop()
            try await server.stopped()
        }

        /// A script that changes a record by the server's own client, and follows the change.
        private static func clientScript(_ server: Server) -> String {
            """
            const said = [];
            try {
                const { Tidemark } = await import('\(server.url)/client/tidemark.js');
                const zone = new Tidemark('\(server.url)');
                const note = await zone.get('notes', 1);
                const fresh = await zone.patch('notes', note, { text: 'by a page' });
                said.push(fresh.text);
                try { await zone.patch('notes', note, { text: 'too late' }); }
                catch (problem) { said.push(problem.status + ' ' + problem.code + ', now ' + problem.current.text); }
                for await (const found of zone.list('notes', { text: 'eq.by a page' })) {
                    said.push('found ' + found.id);
                }
                for await (const page of zone.changes(fresh.$revision - 1, { tables: 'notes' })) {
                    said.push('heard ' + page.changes[0].record.text);
                    break;
                }
            } catch (error) { said.push('no client'); }
            try {
                await fetch('\(server.url)/tables/notes/1', { method: 'PATCH', body: '{"text": "raw"}',
                    headers: { 'If-Match': '*', 'Content-Type': 'application/json' } });
                said.push('sent');
            } catch { said.push('not sent'); }
            return said.join('; ');
            """
        }

        @Test func `a page of an allowed origin changes a record with the small client, another page changes nothing`()
            async throws
        {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let pages = try await PageServer.start()
            let server = try await workshop.serve([
                "serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0", "--allow-origin",
                "http://127.0.0.1:\(pages.port)",
            ])
            let others = try await PageServer.start()
            others.show(Self.clientScript(server))
            let foreign = try await Self.visit("http://127.0.0.1:\(others.port)/", others, workshop)
            #expect(foreign == "no client; not sent")
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT text FROM notes") == "first")
            pages.show(Self.clientScript(server))
            let allowed = try await Self.visit("http://127.0.0.1:\(pages.port)/", pages, workshop)
            #expect(allowed == "by a page; 412 preconditionFailed, now by a page; found 1; heard by a page; sent")
            #expect(try await workshop.sqlite3("zone.sqlite", "SELECT text FROM notes") == "raw")
            try await others.stop()
            try await pages.stop()
            try await server.stopped()
        }

        @Test func `DNS rebinding to 127.0.0.1 shows Chromium nothing, localhost works`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve("zone.sqlite")
            for (host, isAnswered) in [("rebound.example", false), ("localhost", true)] {
                let pageText = try await Self.chromium(
                    workshop, "--host-resolver-rules=MAP rebound.example 127.0.0.1", "--dump-dom",
                    "http://\(host):\(server.port)/schema"
                ).finished()
                #expect(pageText.output.contains("notes") == isAnswered, "\(pageText.output)")
                #expect(pageText.output.contains("originRefused") == !isAnswered)
            }
            try await server.stopped()
        }
    }
}
