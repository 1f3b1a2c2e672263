internal import Hummingbird
internal import TidemarkEngine

/// `DELETE /devices/{device}` at a server with users: forgets a device of the sender, in all zones.
struct DevicesRoute: Sendable {
    let accounts: any AccountReader
    let service: any SyncService

    /// Forgets a device of the sender, if it is there; the tokens end first, so that a killed server is asked again.
    @Sendable func forget(_ request: Request, _ context: ServerRequestContext, user: Caller.User) async throws
        -> Response
    {
        let device = try context.name("device")
        let zones = try await accounts.signOut(device: device, of: user.id)
        try await service.forget(device: device, of: user.id, in: zones)
        return SmallBody.done
    }
}
