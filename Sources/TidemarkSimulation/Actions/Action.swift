/// Something that somebody does in the world.
///
/// An action a file, registered in ``Actions/all``. It draws what it needs from the world's
/// decisions, in which 0 is the simplest choice.
protocol Action: Sendable {
    /// Draws how often a seed has the action; 0: not at all.
    func weight(_ decisions: inout Decisions, profile: Profile) -> Int
    /// Does it.
    ///
    /// - Returns: Whether anything happened.
    func perform(in world: World) throws -> Bool
}

/// Everything that can be done.
enum Actions {
    static let all: [any Action] = [
        EditOnDevice(), SyncDevice(), EditOutside(), EditOnServer(), ResolveConflicts(),
        CrashDevice(), CrashServer(), CutNetwork(), SkewClock(), SyncInSecondProcess(),
        JoinDevice(), MigrateDevice(), MigrateServer(), CopyDevice(), BackUp(), PutBack(),
    ]
}
