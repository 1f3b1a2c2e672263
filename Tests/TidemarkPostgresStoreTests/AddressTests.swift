import Foundation
import Testing
import TidemarkCore
import TidemarkPostgresStore

/// Addresses of databases, as people type them: what is said about them has no password in it.
@Suite struct AddressTests {
    @Test(arguments: [
        "postgres://u:SECRET%ZZ@127.0.0.1:1/db", "postgres://u:a@SECRET@127.0.0.1:1/db",
        "postgres://u:a@SECRET/b@127.0.0.1:1/db", "postgres://u:SECRET/b@127.0.0.1:1/db",
        "postgres://u:1/SECRET@127.0.0.1:1/db", "postgre://u:SECRET@127.0.0.1:1/db",
        "host=127.0.0.1 port=1 password=a SECRET user=u",
    ]) func `rule 20: a password that is not written as it must be is not repeated`(address: String) async throws {
        let error = await #expect(throws: TidemarkError.self) {
            _ = try await PostgresStore(.init(address: address, newEpoch: UUID()))
        }
        #expect(error?.code == .unusableFile)
        #expect(error?.message.contains("%40") == true)
        #expect(!"\(error.debugDescription)".contains("SECRET"))
    }

    @Test(arguments: [
        "postgres://u:SECRET%40%2F%25@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db",
        "host=127.0.0.1 port=1 password='a @SECRET' user=u",
    ]) func `an address that can be read is tried, and the reason why it fails is libpq's`(address: String) async throws
    {
        let error = await #expect(throws: TidemarkError.self) {
            _ = try await PostgresStore(.init(address: address, newEpoch: UUID()))
        }
        #expect(error?.message.contains("port 1 failed") == true)
        #expect(!"\(error.debugDescription)".contains("SECRET"))
    }
}
