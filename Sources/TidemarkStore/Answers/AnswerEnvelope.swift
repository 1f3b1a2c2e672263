import TidemarkCore
package import TidemarkServer
import TidemarkSQLite

/// The envelope of a change set in an answer.
package struct AnswerEnvelope {
    /// The change set's id.
    package let id: String?
    /// The revision that it became.
    package var revision: Int64?
    /// When it was made.
    package var time: Int64?
    /// Why it was refused.
    package var reasons: [ConflictReason]?
    /// Records of which some values do not stand, JSON each.
    package var overruled: [String] = []

    /// Makes an envelope.
    package init(id: String?, revision: Int64? = nil, time: Int64? = nil, reasons: [ConflictReason]? = nil) {
        self.id = id
        self.revision = revision
        self.time = time
        self.reasons = reasons
    }

    /// The members, in the order in which they are sent.
    package var members: [String] {
        var members: [String] = []
        if let id { members.append(#""id":"\#(id)""#) }
        if let revision { members.append(#""revision":\#(revision)"#) }
        if let time { members.append(#""time":\#(time)"#) }
        members.append(#""conflict":\#(reasons != nil)"#)
        if let reasons { members.append(#""reasons":[\#(reasons.map(json).joined(separator: ","))]"#) }
        if !overruled.isEmpty { members.append(#""overruled":[\#(overruled.joined(separator: ","))]"#) }
        return members
    }

    private func json(_ reason: ConflictReason) -> String {
        let columns = reason.columns.map(ChangeSetJSON.quote).joined(separator: ",")
        let key = reason.key.isEmpty ? "" : #""key":\#(reason.key),"#
        return #"{"table":\#(ChangeSetJSON.quote(reason.table)),\#(key)"columns":[\#(columns)],"#
            + #""rule":"\#(reason.rule)","message":\#(ChangeSetJSON.quote(reason.message))}"#
    }
}
