/// What a device that is behind asks of the log: which revisions, and how much of them at a time.
public struct MissedRevisions: Hashable, Sendable {
    /// The revision that the device is at: those after it are missed.
    public let after: Int64
    /// The last one that is wanted.
    public var through: Int64
    /// The most change sets, at least one.
    public let limit: Int
    /// The bytes of change sets beyond which none is added.
    public let bytesMax: Int
    /// Whether the first one comes however long it is.
    public let bringsFirst: Bool
    /// The device, whose own change sets come with the temporary ids that it gave; nil for all as
    /// everybody else sees them.
    public let device: String?

    /// Makes a question.
    public init(
        after: Int64,
        through: Int64,
        limit: Int,
        bytesMax: Int,
        bringsFirst: Bool = true,
        device: String? = nil
    ) {
        self.after = after
        self.through = through
        self.limit = limit
        self.bytesMax = bytesMax
        self.bringsFirst = bringsFirst
        self.device = device
    }

    /// The same question about revisions up to another one.
    public func through(_ revision: Int64) -> MissedRevisions {
        var question = self
        question.through = revision
        return question
    }
}
