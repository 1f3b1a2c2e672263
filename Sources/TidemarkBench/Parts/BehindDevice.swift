import Foundation
import GRDB
import Tidemark
import TidemarkCore

/// A device's file without the changes of another device, and the server that has them.
struct BehindDevice: Sendable {
    /// The way to bring it up to date.
    enum Way: Hashable, Sendable {
        /// The server's choice.
        case any
        /// All change sets, however many.
        case changeSets
        /// A file of the changed rows.
        case delta
    }

    let place: Workplace
    /// The file of the device that changed the rows.
    let writer: String
    private let template: String
    /// The device's revision.
    private let base: Int64
    private let digest: ZoneDigest
    private let way: Way

    /// Serves a zone, lets a device join, and lets another one run statements and sync, again and
    /// again.
    ///
    /// Each statement becomes a change set, so the statements of one sync must change different
    /// records.
    init(_ setting: BenchSetting, _ zone: Workplace.Zone, changes: [[String]], by way: Way = .any) async throws {
        var zone = zone
        switch way {
        case .any: break
        case .changeSets: zone.limits.deltaBytesMin = .max
        case .delta: zone.limits.deltaBytesMin = 1
        }
        self.way = way
        place = try await Workplace(setting, zone)
        template = try await place.join()
        // The first sync lends the file its ids. A file that asks for ids once per copy would look
        // like several devices with one identity.
        let first = try await place.device(at: template)
        try await first.engine.sync()
        _ = try await first.database.writeWithoutTransaction { try $0.checkpoint(.truncate) }
        try first.close()
        writer = try await place.join()
        let base = try await place.digest().revision
        let device = try await place.device(at: writer)
        for round in changes {
            for sql in round { try await device.write(sql) }
            try await device.engine.sync()
        }
        try device.close()
        let digest = try await place.digest()
        self.base = base
        self.digest = digest
        let count = Int64(changes.joined().count)
        try Agreement.require(digest.revision == base + count) {
            "\(count) change sets led from revision \(base) to \(digest.revision)"
        }
    }

    /// Brings a copy of the file up to date.
    func sync(_ route: BenchJob.Way) async throws -> Sample {
        let path = try place.copy(of: template)
        let device = try await place.device(at: path, route)
        let sample = try await place.counting({ device.requests }) {
            try await Sample.time { try await device.engine.sync() }
        }
        try device.close()
        try Agreement.require(path, holds: digest)
        let isWanted = way == .any || (device.snapshots > 0) == (way == .delta)
        try Agreement.require(isWanted) { "\(device.snapshots) files were taken" }
        return sample
    }

    /// The bytes of the answers with all changes, uncompressed: their change sets, which
    /// ``TidemarkCore/Limits/deltaBytesMin`` bounds, and little else.
    func missedBytes() async throws -> Int {
        let transport = try place.transport()
        var head = Head(maxRevision: base, more: true)
        var bytes = 0
        while head.more {
            let question = #"{"maxRevision":\#(head.maxRevision)}"#
            let answer = try await transport.sync(zone: "main", body: Array(question.utf8))
            head = try JSONDecoder().decode(Head.self, from: Data(answer))
            bytes += answer.count
        }
        return bytes
    }

    private struct Head: Decodable {
        let maxRevision: Int64
        let more: Bool
    }
}
