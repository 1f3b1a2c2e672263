import Foundation
import Testing

extension IntegrationTests {
    /// The dashboard of a real server in a real Chromium.
    @Suite(
        .timeLimit(.minutes(30)),
        .enabled(if: Tool.chromium.isThere, "there is no Chromium here; Scripts/setup.sh tests installs it")
    )
    struct DashboardTests {
        private static let schema = """
            CREATE TABLE report (id INTEGER PRIMARY KEY, text TEXT);
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT);
            CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, team_id INTEGER REFERENCES team (id));
            INSERT INTO report VALUES (1, 'begin');
            INSERT INTO team VALUES (1, 'קבוצת חיפה <b>bold</b>');
            INSERT INTO player VALUES (7, 'Zoë 🌊', 1);
            """

        /// A script at the end of `app.js` that looks at every page, and writes what it sees into the zone.
        private static let probe = #"""

            const reporter = new Tidemark(new URL('..', import.meta.url))
            const report = text => reporter.create('report', { text })
            const fault = event => report(`fault: ${event.reason?.stack ?? event.message}`)
            addEventListener('error', fault)
            addEventListener('unhandledrejection', fault)
            const seen = pattern => new Promise(resolve => {
              const look = () => {
                if (!pattern.test(document.body.textContent)) return
                observer.disconnect()
                resolve()
              }
              const observer = new MutationObserver(look)
              observer.observe(document, { subtree: true, childList: true, characterData: true })
              look()
            })
            await seen(/All is well: the store answers/)
            await report('healthy')
            await seen(/report: 1 new/)
            await report('a commit arrived')
            const looks = [['tables', /Tables[^]*player/], ['tables/player', /Zoë 🌊/], ['tables/player/7', /Time travel|No changes/],
              ['tables/team/1', /<b>bold<\/b>[^]*player by team_id/], ['revisions', /Author/], ['revisions/2', /Revision 2/],
              ['devices', /No devices|Last contact/], ['conflicts', /No conflicts/], ['health', /commit_duration_seconds/],
              ['schema', /openapi.json/]]
            for (const [path, pattern] of looks) {
              location.hash = `#/${path}`
              await seen(pattern)
            }
            await report(document.querySelector('b') ? 'markup' : 'done')
            """#

        /// A copy of the dashboard's folder with the script.
        private static func folder(in workshop: Workshop) throws -> String {
            let pages = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().appending(path: "Sources/TidemarkDashboard/Pages")
            let copy = URL(filePath: workshop.path("pages"))
            try FileManager.default.copyItem(at: pages, to: copy)
            let program = copy.appending(path: "app.js")
            let text = try String(contentsOf: program, encoding: .utf8) + probe
            try text.write(to: program, atomically: true, encoding: .utf8)
            return copy.path
        }

        /// The reports of the page until its last one, as the stream of changes brings them.
        private static func reports(_ workshop: Workshop, _ server: Server) async throws -> [String] {
            let address = "\(server.url)/changes?tables=report&since=1"
            let stream = try workshop.start("curl", ["-sSN", "-H", "Accept: text/event-stream", address])
            var texts: [String] = []
            while !["done", "markup"].contains(texts.last ?? "") {
                let page = try await stream.line(with: "data: ")
                texts += page.matches(of: /"text":"([^"]*)"/).map { String($0.output.1) }
                guard !texts.contains(where: { $0.hasPrefix("fault") }) else { break }
            }
            try await stream.killed()
            return texts
        }

        @Test func `a person opens the dashboard, sees that all is well, and a commit while it happens`() async throws {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", Self.schema)
            let server = try await workshop.serve([
                "serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0", "--dashboard-folder",
                try Self.folder(in: workshop),
            ])
            let browser = try workshop.start(
                try #require(Tool.chromium.path),
                [
                    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                    "--user-data-dir=\(workshop.path("browser"))", "--remote-debugging-port=0",
                    "\(server.url)/dashboard/",
                ]
            )
            #expect(try await Self.reports(workshop, server) == ["healthy", "a commit arrived", "done"])
            browser.signalled(SIGTERM)
            _ = try await browser.finished()
            try await server.stopped()
        }
    }
}
