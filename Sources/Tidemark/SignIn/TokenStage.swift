/// The stage of a device's token at one server, and the device's reactions to events.
///
/// | stage | request | offer | refusal | issued | failed |
/// | --- | --- | --- | --- | --- | --- |
/// | absent | send without | exchange the offer | give up | fresh, store | report |
/// | fresh | send | exchange the offer | refused, give up | fresh, store | report |
/// | ageing | rotate | exchange the offer | refused, give up | fresh, store | send |
/// | refused | send | exchange the offer | give up | fresh, store | report |
///
/// A rotation asks the server for a new token while the old one stays valid until the server first sees
/// the new one. So the device stores the new token before it sends it. A lost answer, a full disk or a
/// crash leaves the old token, which is still valid.
enum TokenStage: CaseIterable {
    case absent
    /// The token is in the first two thirds of its life.
    case fresh
    /// The token is in the last third of its life, or past it by the device's clock.
    case ageing
    /// The server has refused the token.
    case refused

    enum Event: CaseIterable {
        /// A request needs the token.
        case request
        /// A person has given a sign-in token that was not exchanged yet.
        case offer
        /// The server refused a request with 401, and no person has given a sign-in token.
        case refusal
        case issued
        /// The server issued no token, or the device could not store it.
        case failed
    }

    enum Reaction {
        case send
        case sendWithout
        /// Exchange the person's sign-in token, then send the request with the new token.
        case exchangeOffer
        /// Exchange the token for a new one, then send the request with the stored token.
        case rotate
        /// Store the new token, before any request sends it.
        case store
        case report
        /// Report the server's refusal, because only a person can help.
        case giveUp
    }

    func after(_ event: Event) -> (stage: TokenStage, reaction: Reaction) {
        switch (self, event) {
        case (_, .offer): (self, .exchangeOffer)
        case (_, .issued): (.fresh, .store)
        case (.absent, .request): (.absent, .sendWithout)
        case (.fresh, .request), (.refused, .request): (self, .send)
        case (.ageing, .request): (.ageing, .rotate)
        case (.absent, .refusal): (.absent, .giveUp)
        case (.fresh, .refusal), (.ageing, .refusal), (.refused, .refusal): (.refused, .giveUp)
        case (.ageing, .failed): (.ageing, .send)
        case (.absent, .failed), (.fresh, .failed), (.refused, .failed): (self, .report)
        }
    }
}
