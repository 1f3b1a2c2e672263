/// The list of all actions.
enum Actions {
    static let all: [any Action] = [
        EditOnDevice(), SyncDevice(), EditOutside(), EditOnServer(), ResolveConflicts(), CrashDevice(), CrashServer(),
        CutNetwork(), SkewClock(), SyncInSecondProcess(), JoinDevice(), MigrateDevice(), MigrateServer(), CopyDevice(),
        BackUp(), PutBack(), ReadOverRest(), WriteOverRest(), FollowOverRest(), AlterFile(), RewriteTable(),
        EditUncaptured(), SetAmount(),
        LookAtConflicts(),
    ]
}
