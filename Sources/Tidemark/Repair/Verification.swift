public import TidemarkCore

/// The result of comparing a device's rows with the server's.
public struct Verification: Hashable, Sendable, Codable {
    /// A record in which the two differ.
    public struct Record: Hashable, Sendable, Codable {
        /// How they differ.
        public enum Difference: String, Hashable, Sendable, Codable {
            /// Both have the record, with other values.
            case changed
            /// The server has it, this file does not.
            case missing
            /// This file has it, the server does not.
            case surplus
            /// This file has it under a temporary id, but no pending change set creates it.
            ///
            /// Its capture entry was lost. A repair captures it again, as a new record.
            case unsent
        }

        /// The table.
        public let table: String
        /// The key in canonical JSON.
        public let key: String
        /// How they differ.
        public let difference: Difference
        /// The names of columns whose values differ; empty unless the record is `changed`.
        public let columns: [String]
    }

    /// The fingerprint that the file has stored; nil if it has none.
    public var expected: Fingerprint?
    /// The fingerprint of the server's rows, computed from all of them.
    public var fingerprint: Fingerprint?
    /// The records that differ, in the order of discovery.
    public var records: [Record] = []
    /// The number of requests.
    public var roundTrips = 0
    /// The bytes of the requests, before compression.
    public var bytesSent = 0
    /// The bytes of the answers, before compression.
    public var bytesReceived = 0
}
