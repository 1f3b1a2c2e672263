import Foundation
import Logging
import TidemarkEmbedded
import TidemarkPostgres
import TidemarkServer

/// A program that takes the products `TidemarkServer` and `TidemarkPostgres`, and serves by either store.
func serve(_ path: String, address: String?, logger: Logger) async throws {
    let limits = Limits.standard
    let service: any SyncService
    if let address {
        var options = PostgresStore.Options(address: address, newEpoch: UUID())
        options.policies = ["note": .columns]
        options.limits = limits
        service = try await PostgresStore(options)
    } else {
        service = try EmbeddedStore(path: path, newEpoch: UUID(), policies: ["note": .columns], limits: limits)
    }
    let application = TidemarkServerApplication(service: service, limits: limits, logger: logger)
    try await application.run { port in logger.notice("listening on port \(port)") }
}
