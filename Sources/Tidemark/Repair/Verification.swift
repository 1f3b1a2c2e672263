public import TidemarkCore

/// What a comparison of a device's rows with the server's found.
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
            /// This file has it under a temporary id, and nothing that waits sends it: what was
            /// captured of it is lost. A repair captures it anew, as a new record.
            case unsent
        }

        /// The table.
        public let table: String
        /// The key in canonical JSON.
        public let key: String
        /// How they differ.
        public let difference: Difference
        /// The columns whose values differ, by name; empty unless the record is `changed`.
        public let columns: [String]
    }

    /// The fingerprint that the file should have by its own books; nil when it has none.
    public var expected: Fingerprint?
    /// The fingerprint of the server's rows, computed from all of them.
    public var fingerprint: Fingerprint?
    /// The records that differ, in the order in which they were found.
    public var records: [Record] = []
    /// How often something was asked.
    public var roundTrips = 0
    /// The bytes of the questions, before compression.
    public var bytesSent = 0
    /// The bytes of the answers, before compression.
    public var bytesReceived = 0
}
