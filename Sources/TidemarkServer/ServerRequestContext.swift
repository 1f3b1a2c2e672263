internal import Hummingbird
internal import NIOCore

/// The context of a request: its connection and notes.
struct ServerRequestContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The connection, which a route closes if a refused upload continues.
    let channel: any Channel
    /// Values for the outer middleware.
    let notes = RequestNotes()

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }

    /// The address of the client; nil if the connection has ended.
    var clientAddress: String? { notes.forwardedClient ?? channel.remoteAddress?.ipAddress }
}
