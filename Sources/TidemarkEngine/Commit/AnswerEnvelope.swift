import TidemarkCore

/// The envelope of a change set in an answer.
package struct AnswerEnvelope {
    /// The change set's id.
    package let id: String?
    /// The revision that it became.
    package var revision: Int64?
    /// The author's time.
    package var time: Int64?
    /// The reasons of a conflict; nil for an accepted change set.
    package var reasons: [ConflictReason]?
    /// Records with overruled values, JSON each.
    package var overruled: [String] = []

    /// Makes an envelope.
    package init(id: String?, revision: Int64? = nil, time: Int64? = nil, reasons: [ConflictReason]? = nil) {
        self.id = id
        self.revision = revision
        self.time = time
        self.reasons = reasons
    }

    /// The JSON members, in the order of the wire format.
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
        let columns = reason.columns.map(JSONText.quote).joined(separator: ",")
        let key = reason.key.isEmpty ? "" : #""key":\#(reason.key),"#
        return #"{"table":\#(JSONText.quote(reason.table)),\#(key)"columns":[\#(columns)],"#
            + #""rule":"\#(reason.rule)","message":\#(JSONText.quote(reason.message))}"#
    }
}
