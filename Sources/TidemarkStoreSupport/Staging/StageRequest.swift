import Foundation
import GRDB
package import TidemarkCore
import TidemarkSQL

extension StagedRequest {
    /// Reads a body, checks every name, key and value in it, and stages its rows.
    package func stage(_ body: [UInt8], limits: Limits) throws -> SyncRequest {
        try clearEarlierRequests()
        let request = try stage(body, list: 0, limits)
        if !request.changeSets.isEmpty { try ChangeSetStaging.stageKeys(in: db) }
        return request
    }

    /// Stages several short bodies together; nil when one of them is faulty.
    package func stage(together bodies: [[UInt8]], limits: Limits) throws -> [SyncRequest]? {
        guard bodies.allSatisfy({ $0.count <= limits.valueBytesMax }) else { return nil }
        try clearEarlierRequests()
        do {
            let requests = try bodies.enumerated().map { list, body in try stage(body, list: list, limits) }
            guard requests.reduce(0, { $0 + $1.changeSets.count }) <= limits.changeSetsPerRequestMax else { return nil }
            try ChangeSetStaging.stageKeys(in: db)
            return requests
        } catch is TidemarkError {
            // The caller stages each body by itself, which throws the error of the faulty one.
            return nil
        }
    }

    private func stage(_ body: [UInt8], list: Int, _ limits: Limits) throws -> SyncRequest {
        let names = schema.wireNames
        return try body.withUnsafeBufferPointer { bytes in
            var reader = try JSONReader(bytes, depthMax: limits.jsonDepthMax, stringMax: ValueBound(limits).stringMax)
            let (request, sets) = try SyncRequest.read(&reader, names: names, limits: limits)
            let staging = ChangeSetStaging(reader, names, in: db)
            let envelopes = try sets.map { set in
                let ord = ChangeSetStaging.ord(list: list, index: set.index)
                let envelope = try SyncRequest.Envelope(
                    set,
                    ord: ord,
                    hash: ContentHash.of(set, in: reader),
                    names: names,
                    reader
                )
                try staging.stage(set, ord: ord)
                return envelope
            }
            return request.with(changeSets: envelopes)
        }
    }

    /// Adds the change set's id to the place of an error, so the device can quarantine the change set.
    package func placing(in request: SyncRequest, _ body: () throws -> Void) throws {
        do { try body() } catch let error as TidemarkError {
            throw error.within(.init(id: request.changeSets.first { $0.ord == error.place.changeSet }?.id))
        }
    }

    /// Empties the tables of earlier requests.
    private func clearEarlierRequests() throws {
        try StagingTables.clear(in: db)
        for table in ["given", "planned"] { try CommitTables.clear(table, in: db) }
    }
}
