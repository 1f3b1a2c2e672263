/// The statements of one transaction of the database of users, and its time.
package struct AccessSession {
    package let database: any AccessStatements
    /// The time of the transaction, in milliseconds since 1970.
    package let now: Int64
}

/// One subject of the database of users, such as its tokens, in one transaction of the caller.
package protocol AccessCell {
    var session: AccessSession { get }
    init(_ session: AccessSession)
}

extension AccessCell {
    /// Works in a transaction whose time is in milliseconds since 1970.
    package init(_ database: any AccessStatements, now: Int64) {
        self.init(AccessSession(database: database, now: now))
    }

    var database: any AccessStatements { session.database }
    var now: Int64 { session.now }

    var audit: Audit { Audit(session) }
    var members: Members { Members(session) }
    var tokens: Tokens { Tokens(session) }
}
