import GRDB
import TidemarkCore

/// The end of a run: faults stop, all devices sync, conflicts are decided, and then nothing may
/// differ or wait.
extension World {
    /// More passes than any healthy world needs.
    private static let passesMax = 15

    /// Stops all faults and lets everything drain.
    func settle() throws {
        decisions.begin(.settle)
        note("all faults stop")
        isHealed = true
        try recorder.healed()
        try migrateAll()
        for device in devices {
            device.isReachable = true
            device.virtual.skew(by: 0)
        }
        try drain()
        for pass in 1...Self.passesMax {
            for device in devices {
                _ = try beginSync(device, process: SimulatedDevice.app)
                try drain()
                try resolveAll(device, mayRetry: pass < 5)
            }
            // A comparison finds edits without triggers only after the device is even.
            if try isQuiet(), pass > 2 || !options.profile.followsFates {
                note("quiet after \(pass) passes")
                return try settleClients()
            }
        }
        let states = try devices.map { device in
            let (edits, conflicts, revision, _) = try device.waiting()
            return "\(device.name) at \(revision) with \(edits) edits and \(conflicts) conflicts"
        }
        throw Finding(
            "I10", actor: "world",
            detail: "not drained after \(Self.passesMax) passes: \(states.joined(separator: ", "))")
    }

    private func resolveAll(_ device: SimulatedDevice, mayRetry: Bool) throws {
        var last: String?
        while let id = try device.firstConflict() {
            // A change set that does not fit is still parked after a retry.
            let retries = mayRetry && id != last && decisions.chance(30)
            try resolve(id, on: device, retries: retries)
            last = id
        }
    }

    private func isQuiet() throws -> Bool {
        let revision = try server.revision()
        return try devices.allSatisfy {
            let waiting = try $0.waiting()
            return waiting.edits == 0 && waiting.conflicts == 0 && waiting.revision == revision
        }
    }

    // MARK: What must hold

    /// Checks that all files are equal, byte for byte, and whole.
    func verify() throws {
        counters[.revisions] += Int(try server.revision())
        counters[.shortLogs] += try server.horizon() > 1 ? 1 : 0
        defer { counters[.keptValues] += recorder.keptValues }
        try recorder.finished(devices, server)
        let truth = try server.read { try FileImage($0, version: server.version) }
        try check(server.read { try Self.defects($0) }, "server")
        for device in devices {
            let image = try device.access { try FileImage($0, version: device.version) }
            if image != truth { throw Finding("I5", actor: device.name, detail: Self.difference(image, truth)) }
            try check(device.access { try Self.defects($0) }, device.name)
        }
        try checkIds(truth)
        for table in truth.tables { trace.add(table) }
    }

    private func check(_ defects: [String], _ actor: String) throws {
        if let first = defects.first { throw Finding("I8", actor: actor, detail: first) }
    }

    private static func defects(_ db: Database) throws -> [String] {
        let broken = try Row.fetchAll(db, sql: "PRAGMA foreign_key_check").map {
            "\($0[0] as String) refers to a \($0[2] as String) that is not there"
        }
        let damage = try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
        return broken + damage
    }

    /// No temporary id is left in any file; all files are equal by now.
    private func checkIds(_ truth: FileImage) throws {
        for (index, table) in Migrations.versions[truth.version].enumerated() {
            for row in truth.rows(index) {
                for column in table.ids {
                    guard let id = Int64(row[column]) else { continue }
                    guard id < 0 || id >= 1 << 52 else { continue }
                    throw Finding(
                        "I8", actor: "server",
                        detail: "\(table.name) has the temporary id \(id) in \(table.columns[column])")
                }
            }
        }
    }

    private static func difference(_ image: FileImage, _ truth: FileImage) -> String {
        let own = image.lines
        let others = truth.lines
        let ownSet = Set(own)
        let otherSet = Set(others)
        let extra = own.first { !otherSet.contains($0) }
        let missing = others.first { !ownSet.contains($0) }
        return "has \(extra ?? "no other row"), the server has \(missing ?? "no other row")"
    }
}
