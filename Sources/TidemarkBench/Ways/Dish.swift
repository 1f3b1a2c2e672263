import Crypto
import Foundation
import TidemarkCore

/// A dish of the list that the five ways of syncing bring to a client.
struct Dish: Hashable, Codable {
    let id: Int
    let city_id: Int
    let name: String
    let price: Int
    /// The time of the last change by the app's clock.
    let updated: String
    /// 1 for a dish that clients remove.
    let is_deleted: Int

    /// The row's number in a fingerprint, as the protocol defines it.
    var number: Fingerprint {
        let members = [
            ("city_id", String(city_id)), ("is_deleted", String(is_deleted)), ("name", JSONText.quote(name)),
            ("price", String(price)), ("updated", JSONText.quote(updated)),
        ]
        let digest = SHA256.hash(data: Data("\"dish\"\t\(id)\t\(JSONText.object(members))".utf8))
        return digest.withUnsafeBytes {
            Fingerprint(
                high: UInt64(bigEndian: $0.loadUnaligned(as: UInt64.self)),
                low: UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
        }
    }
}
