import TidemarkTestSupport

extension Sample.Wire {
    /// What went through a relay from one look to the next.
    init(requests: Int, from before: TCPRelay.Traffic, to now: TCPRelay.Traffic) {
        self.requests = requests
        bytesUp = Int(now.bytesUp - before.bytesUp)
        bytesDown = Int(now.bytesDown - before.bytesDown)
    }
}
