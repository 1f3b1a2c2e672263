internal import Hummingbird
internal import NIOCore

/// What a route knows of its request besides the request itself.
struct ServerRequestContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    /// The connection, so that one with an unwanted upload can be closed.
    let channel: any Channel
    /// What is told about the request on the way out.
    let notes = RequestNotes()

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }
}
