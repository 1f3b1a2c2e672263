internal import Hummingbird
internal import TidemarkEngine

/// `DELETE /devices/{device}` at a server with users: forgets a device of the sender, in all zones.
struct DevicesRoute: Sendable {
    let accounts: any AccountReader
    let service: any SyncService

    /// Answers one request; a device that is not there, or not the sender's, changes nothing.
    ///
    /// The tokens end first: a server that is killed in between is asked again.
    @Sendable func forget(_ request: Request, _ context: ServerRequestContext, user: Caller.User) async throws
        -> Response
    {
        let device = try context.name("device")
        let zones = try await accounts.signOut(device: device, of: user.id)
        try await service.forget(device: device, of: user.id, in: zones)
        return SmallBody.done
    }
}
