import Foundation
import Testing
import TidemarkCore

@testable import TidemarkIdentity

/// A temporary folder with the files of one test.
final class Place: Sendable {
    private let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "tidemark-identity-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit {
        do { try FileManager.default.removeItem(at: folder) } catch {
            // A folder left behind in the system's temporary folder harms no other test.
            return
        }
    }

    func path(_ name: String) -> String { folder.appending(path: name).path }

    /// Writes a file, and returns its path.
    func write(_ bytes: [UInt8], to name: String) throws -> String {
        try Data(bytes).write(to: folder.appending(path: name))
        return path(name)
    }

    /// The verifier of one provider whose keys lie in a file.
    func verifier(
        of keys: [SigningKey], algorithms: Set<SignatureAlgorithm> = [.es256, .rs256, .edDSA],
        claims: [String: ClaimType] = [:], now: @escaping @Sendable () -> Int64 = { TestToken.now }
    ) async throws -> ProviderTokens {
        let file = try write(try keySet(keys.map { $0.member() }), to: "keys.json")
        return try await ProviderTokens([provider(.file(file), algorithms: algorithms, claims: claims)], now: now)
    }

    /// A provider of these tests.
    func provider(
        _ keys: IdentityProvider.Keys, algorithms: Set<SignatureAlgorithm> = [.es256, .rs256, .edDSA],
        claims: [String: ClaimType] = [:]
    ) -> IdentityProvider {
        IdentityProvider(
            name: "acme", issuer: TestToken.issuer, audience: TestToken.audience, keys: keys, algorithms: algorithms,
            claims: claims)
    }
}

/// Returns the refusal of a token; nil for a token that is accepted.
func refusal(of token: String, by verifier: ProviderTokens) async throws -> TokenRefusal? {
    do {
        _ = try await verifier.user(token)
        return nil
    } catch let error as TidemarkError {
        guard let refusal = TokenRefusal.allCases.first(where: { $0.error == error }) else { throw error }
        return refusal
    }
}
