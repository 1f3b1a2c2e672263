import GRDB
import Synchronization

/// What the openings of zones' files found out, by the shape of the file.
///
/// All zones have the tables of the main zone. So the server introspects the tables at the first opening, and
/// reads only the shape at the others. Safe to use from any thread.
final class ZoneShapes: Sendable {
    /// The main zone's tables, and the shape of its file that had them.
    struct Main: Sendable {
        let shape: FileShape
        let template: ZoneTemplate
    }

    private struct State {
        var main: Main?
        var adoptions: [FileShape: ZoneFile.Adopted] = [:]
    }

    /// The most shapes to remember; operators can alter single zones.
    private static let countMax = 16
    private let state = Mutex(State())

    /// Returns the main zone's tables; a change of its file's shape makes this forget all adoptions.
    func main(in db: Database) throws -> Main {
        let shape = try FileShape(db)
        if let known = state.withLock(\.main), known.shape == shape { return known }
        let main = Main(shape: shape, template: try ZoneTemplate(db))
        state.withLock { $0 = State(main: main) }
        return main
    }

    /// Returns the adoption of a file with this shape, which had nothing to change in the file.
    func adoption(of shape: FileShape, beside main: Main) -> ZoneFile.Adopted? {
        state.withLock { $0.main?.shape == main.shape ? $0.adoptions[shape] : nil }
    }

    /// Remembers the adoption of a file that has this shape since.
    func remember(_ adopted: ZoneFile.Adopted, of shape: FileShape, beside main: Main) {
        state.withLock { state in
            guard state.main?.shape == main.shape else { return }
            if state.adoptions.count >= Self.countMax { state.adoptions = [:] }
            state.adoptions[shape] = adopted
        }
    }
}

/// Opens the file of a zone beside the main one: gives it the main zone's tables and declarations, and adopts it.
struct AdoptBesideMain: Sendable {
    let main: ZoneShapes.Main
    let zone: String
    let shapes: ZoneShapes
    let adopt: ZoneFile.Adopt

    /// Adopts the file in the caller's transaction; throws ``TidemarkCore/UnsyncableSchema`` for unfit tables.
    func run(in db: Database, opening: ZoneFile.Opening) throws -> ZoneFile.Adopted {
        // Later, the store follows the changes of the file itself only.
        guard opening.isFirst else { return try adopt(db, opening) }
        if let adopted = shapes.adoption(of: try FileShape(db), beside: main) {
            try ZoneAdoption.requireLatest(db)
            return try adopted.again(in: db)
        }
        try AlignZone(template: main.template, zone: zone).run(in: db)
        var aligned = opening
        let known = Set(try ServedColumns.renames(in: db))
        aligned.renames = main.template.renames.filter { !known.contains($0) }
        aligned.keys = try main.template.keys(missingIn: db)
        let adopted = try adopt(db, aligned)
        shapes.remember(adopted, of: try FileShape(db), beside: main)
        return adopted
    }
}
