/// What a device has whole, so that a file of the rows changed since is enough for it.
public struct DeltaBase: Hashable, Sendable {
    /// The history.
    public let epoch: String
    /// The revision that the rows are at.
    public let revision: Int64
    /// The hash of the zone's schema as the device knows it.
    public let schema: String

    /// What a device has that begins: no row, and no revision that it knows of.
    public static let nothing = DeltaBase(epoch: "", revision: 0, schema: "")

    /// Makes a base.
    public init(epoch: String, revision: Int64, schema: String) {
        self.epoch = epoch
        self.revision = revision
        self.schema = schema
    }
}
