import TidemarkCore

/// Judges contended records by the policies of their tables.
///
/// - Returns: The records in which a policy chose between two values.
/// - Throws: ``Violation`` with the reasons of a conflict.
func judgeAll(
    _ contentions: [Contention],
    by policies: (String) throws -> (table: ConflictPolicy, columns: [String: ConflictPolicy])
) throws -> [Overruling] {
    var reasons: [ConflictReason] = []
    var overrulings: [Overruling] = []
    for contention in contentions {
        let policy = try policies(contention.table)
        switch judge(contention, policy: policy.table, columns: policy.columns) {
        case .merge: continue
        case .overrule(let mine, let theirs):
            overrulings.append(Overruling(contention: contention, mine: mine, theirs: theirs))
        case .conflict(let rule, let columns):
            reasons.append(
                ConflictReason(
                    table: contention.table,
                    key: contention.key,
                    columns: columns.sorted(),
                    rule: mistaken(rule)
                )
            )
        }
    }
    if !reasons.isEmpty { throw Violation.conflict(reasons) }
    return overrulings
}
