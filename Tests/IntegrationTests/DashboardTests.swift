import Foundation
import Testing

extension IntegrationTests {
    /// The dashboard of a real server in a real Chromium.
    @Suite(
        .timeLimit(.minutes(10)),
        .enabled(if: Tool.chromium.isThere, "there is no Chromium here; Scripts/setup.sh tests installs it")
    )
    struct DashboardTests {
        private static let schema = """
            CREATE TABLE report (id INTEGER PRIMARY KEY, text TEXT);
            CREATE TABLE team (id INTEGER PRIMARY KEY, name TEXT, motto TEXT, town TEXT);
            CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, team_id INTEGER REFERENCES team (id));
            INSERT INTO report VALUES (1, 'begin');
            INSERT INTO team VALUES (1, 'קבוצת חיפה <b>bold</b>', NULL, 'Kiel');
            INSERT INTO player VALUES (7, 'Zoë 🌊', 1);
            """

        /// The beginning of a script that looks at pages and writes what it sees into the zone.
        private static let opening = #"""

            const reporter = new Tidemark(new URL('..', import.meta.url))
            const report = text => reporter.create('report', { text: `${text}` })
            const fault = event => report(`fault: ${event.reason?.stack ?? event.message}`)
            addEventListener('error', fault)
            addEventListener('unhandledrejection', fault)
            const until = test => new Promise(resolve => {
              const look = () => {
                if (!test()) return
                observer.disconnect()
                resolve()
              }
              const observer = new MutationObserver(look)
              observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true })
              look()
            })
            const seen = pattern => until(() => pattern.test(document.body.textContent))
            const visit = async (hash, pattern) => {
              location.hash = hash
              await seen(pattern)
            }
            const all = selector => [...document.querySelectorAll(selector)]
            const texts = selector => all(selector).map(element => element.textContent)

            """#

        /// A copy of the dashboard's folder with a script at the end of `app.js`.
        private static func folder(in workshop: Workshop, script: String) throws -> String {
            let pages = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .deletingLastPathComponent().appending(path: "Sources/TidemarkDashboard/Pages")
            let copy = URL(filePath: workshop.path("pages"))
            try FileManager.default.copyItem(at: pages, to: copy)
            let program = copy.appending(path: "app.js")
            let text =
                try String(contentsOf: program, encoding: .utf8) + opening + script
                + "\nawait report(document.querySelector('b') ? 'markup' : 'done')\n"
            try text.write(to: program, atomically: true, encoding: .utf8)
            return copy.path
        }

        /// The reports of the page until its last one, as the feed of changes brings them.
        private static func reports(_ server: Server, _ workshop: Workshop) async throws -> [String] {
            let address = "\(server.url)/changes?tables=report&since=1"
            let feed = try workshop.start("curl", ["-sSN", "-H", "Accept: text/event-stream", address])
            var texts: [String] = []
            while !["done", "markup"].contains(texts.last ?? ""), !texts.contains(where: { $0.hasPrefix("fault") }) {
                let line = try await feed.line(with: #""table":"report""#)
                texts += line.matches(of: /"text":"([^"]*)"/).map { String($0.output.1) }
            }
            try await feed.killed()
            return texts
        }

        /// Serves a zone, has a person do something to it, and then looks at the pages with a script.
        private static func look(
            at schema: String,
            by script: String,
            after work: (Workshop, Server) async throws -> Void = { _, _ in }
        ) async throws -> [String] {
            let workshop = try Workshop()
            try await workshop.sqlite3("zone.sqlite", schema)
            let server = try await workshop.serve([
                "serve", workshop.path("zone.sqlite"), "--listen", "127.0.0.1:0", "--dashboard-folder",
                try folder(in: workshop, script: script),
            ])
            try await work(workshop, server)
            let browser = try workshop.start(
                try #require(Tool.chromium.path),
                [
                    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                    "--user-data-dir=\(workshop.path("browser"))", "--remote-debugging-port=0",
                    "\(server.url)/dashboard/",
                ]
            )
            let said = try await reports(server, workshop)
            browser.signalled(SIGTERM)
            _ = try await browser.finished()
            try await server.stopped()
            return said
        }

        @Test func `a person opens the dashboard, sees that all is well, and a commit while it happens`() async throws {
            let script = #"""
                await seen(/All is well: the store answers/)
                await report('healthy')
                await seen(/report: 1 new/)
                await report('a commit arrived')
                const looks = [['tables', /Tables[^]*player/], ['tables/player', /Zoë 🌊/],
                  ['tables/player/7', /Time travel|No changes/],
                  ['tables/team/1', /<b>bold<\/b>[^]*player by team_id/], ['revisions', /Author/],
                  ['revisions/2', /Revision 2/], ['devices', /No devices|Last contact/], ['conflicts', /No conflicts/],
                  ['schema', /openapi.json/], ['health', /tidemark_commit_duration_seconds/]]
                for (const [path, pattern] of looks) await visit(`#/${path}`, pattern)
                await report(texts('.facts h2'))
                await visit('#/zones/%E0%A4%A', /This address is not whole/)
                await visit('#/tables/%', /This address is not whole/)
                await visit('#/nosuch', /There is no page nosuch/)
                document.documentElement.style.width = '390px'
                await report(all('#top a').filter(link => link.getBoundingClientRect().right > 390).length + ' cut off')
                """#
            let said = try await Self.look(at: Self.schema, by: script)
            // Not every system tells the memory, and a file may have no WAL.
            let shown = said.map { $0.replacing(/Memory,|WAL,/, with: "") }
            #expect(shown == ["healthy", "a commit arrived", "Up for,Data,Disk", "0 cut off", "done"])
        }

        @Test
        func `two people changed a team: the dashboard names the refusal, the columns of each, and where it waits`()
            async throws
        {
            let script = #"""
                await seen(/Running, but: 1 refused change set/)
                await report(/All is well/.test(document.body.textContent) ? 'all is well' : 'a warning')
                await visit('#/conflicts', /waits on this device/)
                await report(texts('.card h2').join('; '))
                const content = cell => cell.textContent + (cell.querySelector('.null') ? '!' : '')
                const rows = table => [...table.querySelectorAll('tbody tr')].map(row =>
                  [...row.children].map(content).join(' | '))
                const tables = all('.card div > .scroll table')
                await report([...tables[0].querySelectorAll('thead th')].map(cell => cell.textContent).join(' | '))
                for (const table of tables) await report(rows(table).join('; '))
                await report(texts('.card summary').join('; '))
                await visit('#/revisions', /another program/)
                await report(texts('.lines li > :last-child').slice(-3).join('; '))
                """#
            let said = try await Self.look(at: Self.schema, by: script) { workshop, server in
                let team = "\(server.url)/tables/team/1"
                let head = try await workshop.run("curl", "-sS", "-D", "-", team).output
                let tag = try #require(head.firstMatch(of: /(?i)etag: *(\S+)/)).output.1
                try await workshop.join(server, "b.sqlite")
                _ = try await workshop.tidemark(
                    "device",
                    "join",
                    server.url,
                    workshop.path("a.sqlite"),
                    "--name",
                    "Anna"
                )
                try await workshop.sqlite3("a.sqlite", "UPDATE team SET motto = 'A', name = 'red'")
                try await workshop.sync("a.sqlite")
                try await workshop.sqlite3(
                    "b.sqlite",
                    "BEGIN; UPDATE team SET motto = '', town = NULL; UPDATE player SET name = 'NULL'; COMMIT"
                )
                #expect(try await workshop.tidemark("device", "sync", workshop.path("b.sqlite")).status != 0)
                try await workshop.sqlite3("zone.sqlite", "INSERT INTO player (name) VALUES ('by sqlite3')")
                let rest = ["-sS", "-H", "Content-Type: application/json", "-d", #"{"name":"by REST"}"#]
                let answer = try await workshop.start("curl", rest + ["\(server.url)/tables/player"]).finished()
                #expect(answer.output.contains("by REST"))
                // Its client hears of the refusal; nothing waits anywhere.
                let stale = try await workshop.run("curl", "-sS", "-X", "DELETE", "-H", "If-Match: \(tag)", team)
                #expect(stale.output.contains("412"), "\(stale.output)")
            }
            let team = "קבוצת חיפה <b>bold</b>"
            #expect(
                said == [
                    "a warning",
                    "team 1 the client deletes it; player 7 the device changes it; team 1 the device changes it",
                    "Column | Base | Client | Server",
                    "name | \(team) | no record | red; motto | NULL! | no record | A",
                    "name | Zoë 🌊 | NULL | unchanged",
                    "motto | NULL! | empty! | A; town | Kiel | NULL! | unchanged; name | \(team) | unchanged | red",
                    "1 other column; 1 other column",
                    "REST client · player: 1 new; another program · player: 1 new; Anna · team: 1 changed", "done",
                ]
            )
        }

        @Test func `a revision of 231 records is read to its end, page by page`() async throws {
            let script = #"""
                await visit('#/revisions/3', /Records 1 to 50 of 231/)
                const next = () => all('a').find(link => link.textContent === 'More records →')
                for (let number = 51; next(); number += 50) {
                  next().click()
                  await seen(new RegExp(`Records ${number} to`))
                }
                await report(texts('nav.bar .dim'))
                await report(`${texts('.card .head').length} records, ${texts('td').includes('unknown')}`)
                await report(texts('a').includes('Next →') ? 'leads on' : 'the latest')
                """#
            let said = try await Self.look(at: Self.schema, by: script) { workshop, server in
                try await workshop.join(server, "a.sqlite")
                let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 230)"
                try await workshop.sqlite3("a.sqlite", "\(rows) INSERT INTO player (name) SELECT 'player ' || i FROM n")
                try await workshop.sync("a.sqlite")
                try await workshop.sqlite3("a.sqlite", "UPDATE player SET name = name || '!'")
                try await workshop.sync("a.sqlite")
            }
            #expect(said == ["Records 201 to 231 of 231", "31 records, false", "the latest", "done"])
        }

        @Test func `among 120 tables one is found by the keyboard, and names with every sign of a query work`()
            async throws
        {
            let tables = (1...120).map { "CREATE TABLE table_\($0) (id INTEGER PRIMARY KEY, column_\($0) TEXT);" }
            let schema =
                Self.schema + tables.joined() + """
                    CREATE TABLE "odd name/+%" (id INTEGER PRIMARY KEY, "First Name" TEXT, "a,b" TEXT, "a.b" TEXT,
                        "$price" REAL, "order" TEXT, "50% + 1" TEXT);
                    INSERT INTO "odd name/+%" VALUES (1, 'St Gallen', 'x, y', 'p', 1.5, 'o', 'q+r');
                    INSERT INTO "odd name/+%" VALUES (2, 'Bern', '', '', 2, '', '');
                    """
            let script = #"""
                const press = (target, key) =>
                  target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))
                const find = text => {
                  press(document.body, '/')
                  const field = document.activeElement
                  field.value = text
                  field.dispatchEvent(new Event('input'))
                  return field
                }
                const shown = selector => all(selector).filter(element => !element.hidden).length
                await visit('#/tables', /Show all 124/)
                await report(shown('tbody tr') + ' of 124')
                const field = find('TABLE_77')
                await report(shown('tbody tr') + ' found')
                press(field, 'Enter')
                await seen(/No rows yet/)
                await report(location.hash)
                await visit('#/schema', /Show all 124/)
                await report(all('details[open]').length + ' open')
                press(find('column_99'), 'Enter')
                await until(() => all('details[open]').length === 1)
                await report(texts('details[open] strong'))
                location.hash = '#/tables'
                await until(() => texts('h1').includes('Tables'))
                press(find('odd name'), 'Enter')
                await seen(/1\.5[^]*q\+r/)
                const filters = [['First Name', 'St Gallen'], ['a,b', 'x, y'], ['a.b', 'p'], ['$price', '1.5'],
                  ['order', 'o'], ['50% + 1', 'q+r']]
                for (const [column, text] of filters) {
                  await visit(location.hash.split('?')[0], /2 rows at/)
                  const [choice] = all('form select')
                  choice.value = column
                  all('form input')[0].value = text
                  choice.form.requestSubmit()
                  await seen(/1 row at/)
                  all('th a').find(link => link.textContent === column).click()
                  await until(() => all('[aria-sort=ascending]').length === 1)
                  await report(texts('tbody tr').join())
                }
                await visit('#/tables/odd%20name%2F%2B%25/1', /Copy as curl/)
                await report(texts('.fields td').join(' | '))
                """#
            let said = try await Self.look(at: schema, by: script)
            let row = "1St Gallenx, yp1.5oq+r1"
            #expect(
                said == ["50 of 124", "1 found", "#/tables/table_77", "0 open", "table_99"]
                    + Array(repeating: row, count: 6) + ["1 | St Gallen | x, y | p | 1.5 | o | q+r", "done"]
            )
        }
    }
}
