import Foundation
public import Tidemark
public import TidemarkCore
import TidemarkGzip
public import TidemarkEngine

/// The transport to a server in the same process: real engine, real files, no sockets.
///
/// ``faults`` decides the fate of each message.
public final class InProcessTransport: Transport {
    /// The fates of the next messages, in order; later ones succeed.
    public let faults: FaultPlan
    private let service: any SyncService

    /// Makes a transport to a service.
    public init(to service: any SyncService, faults: FaultPlan = FaultPlan()) {
        self.service = service
        self.faults = faults
    }

    /// Sends one round, unless a fault is due.
    public func sync(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let fault = faults.next()
        faults.record(request: body)
        if fault == .requestLost { throw FaultPlan.lost }
        let answer = try await service.sync(zone: zone, body: body)
        faults.record(answer: answer)
        // Sends the same request again, as an impatient proxy would. The device gets the second
        // answer.
        let arriving = fault == .requestDoubled ? try await service.sync(zone: zone, body: body) : answer
        if let meanwhile = faults.takeMeanwhile() { try await meanwhile() }
        if fault == .answerLost { throw FaultPlan.lost }
        return arriving
    }

    /// Sends a short question, unless a fault is due.
    public func news(zone: String, device: String, since tag: ZoneTag) async throws -> [UInt8]? {
        let fault = faults.next()
        faults.record(question: tag)
        if fault == .requestLost { throw FaultPlan.lost }
        let news = try await service.news(zone: zone, device: device, since: tag)
        if let meanwhile = faults.takeMeanwhile() { try await meanwhile() }
        if fault == .answerLost { throw FaultPlan.lost }
        switch news {
        case nil: throw TidemarkError(.fullRequestRequired, "Too few words.", fix: "Ask in full.")
        case .nothing: return nil
        case .answer(let answer, _):
            faults.record(answer: answer)
            return answer
        }
    }

    /// Runs `body` once, after the server has answered the next comparison of rows.
    public func whileComparing(_ body: @escaping @Sendable () async throws -> Void) { faults.whileComparing(body) }

    /// Compares rows, unless a fault is due.
    public func fingerprints(zone: String, body: [UInt8]) async throws -> [UInt8] {
        let fault = faults.next()
        if fault == .requestLost { throw FaultPlan.lost }
        let answer = try await service.fingerprints(zone: zone, body: body)
        faults.countComparison(bytes: body.count + answer.count)
        if let meanwhile = faults.takeMeanwhileComparing() { try await meanwhile() }
        if fault == .answerLost { throw FaultPlan.lost }
        return answer
    }

    /// Copies the snapshot.
    public func snapshot(
        zone: String, since base: DeltaBase?, to path: String,
        progress: @Sendable (_ received: Int64, _ total: Int64?) -> Void
    ) async throws {
        if faults.next() == .requestLost { throw FaultPlan.lost }
        let file = try await service.snapshot(zone: zone, since: base)
        try GzipFile.decompress(file.path, to: path, bytesMax: 8 << 30)
        progress(file.byteCount, file.byteCount)
        await service.releaseSnapshot(file)
    }

    /// The statements that make the zone's tables.
    public func schema(zone: String) async throws -> [UInt8] { try await service.schema(zone: zone) }

    /// The changes of one record, unless a fault is due.
    public func history(zone: String, table: String, key: String) async throws -> [UInt8] {
        if faults.next() == .requestLost { throw FaultPlan.lost }
        let text = try await service.read(
            .local(zone),
            ZoneQuestion { reader in
                var query = try PageQuery([])
                query.limit = 500
                let table = try reader.schema.table(table)
                let key = try RecordPath.key(key, of: table) { $0.removingPercentEncoding }
                return try RecordHistory(of: table, reader).json(key, query)
            }
        )
        return Array(text.utf8)
    }
}
