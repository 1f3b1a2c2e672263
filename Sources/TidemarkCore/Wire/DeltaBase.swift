/// The state of a device's rows from which the server can build a delta.
public struct DeltaBase: Hashable, Sendable {
    /// The epoch.
    public let epoch: String
    /// The revision that the rows are at.
    public let revision: Int64
    /// The hash of the zone's schema as the device knows it.
    public let schema: String
    /// The base of a joining device, which has no rows.
    public static let nothing = DeltaBase(epoch: "", revision: 0, schema: "")

    /// Creates a base.
    public init(epoch: String, revision: Int64, schema: String) {
        self.epoch = epoch
        self.revision = revision
        self.schema = schema
    }
}
