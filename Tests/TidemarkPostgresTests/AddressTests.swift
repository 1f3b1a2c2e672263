import Foundation
import Testing
import TidemarkCore
import TidemarkPostgres

/// Connection URLs as people type them: messages about them never contain the password.
@Suite struct AddressTests {
    @Test(arguments: [
        "postgres://u:SECRET%ZZ@127.0.0.1:1/db", "postgres://u:a@SECRET@127.0.0.1:1/db",
        "postgres://u:a@SECRET/b@127.0.0.1:1/db", "postgres://u:SECRET/b@127.0.0.1:1/db",
        "postgres://u:1/SECRET@127.0.0.1:1/db", "postgre://u:SECRET@127.0.0.1:1/db",
        "host=127.0.0.1 port=1 password=a SECRET user=u",
    ]) func `rule 20: the error for a malformed connection URL does not repeat the password`(address: String)
        async throws
    {
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
    ]) func `a well-formed connection URL is tried, and the error has libpq's reason`(address: String) async throws {
        let error = await #expect(throws: TidemarkError.self) {
            _ = try await PostgresStore(.init(address: address, newEpoch: UUID()))
        }
        #expect(error?.message.contains("port 1 failed") == true)
        #expect(!"\(error.debugDescription)".contains("SECRET"))
    }
}
