/// An action of a person, a program or a process in the world.
///
/// A simulation draws from ``Actions/all``. An action draws its details from the world's decisions,
/// in which 0 is the simplest choice.
protocol Action: Sendable {
    /// Draws how often a seed has the action; 0 is never.
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int
    /// Runs the action.
    ///
    /// - Returns: Whether it had an effect.
    func perform(in world: World) throws -> Bool
}
