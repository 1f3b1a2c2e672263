/// Something that somebody does in the world.
///
/// A simulation draws from ``Actions/all``. It draws what it needs from the world's
/// decisions, in which 0 is the simplest choice.
protocol Action: Sendable {
    /// Draws how often a seed has the action; 0: not at all.
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int
    /// Does it.
    ///
    /// - Returns: Whether anything happened.
    func perform(in world: World) throws -> Bool
}
