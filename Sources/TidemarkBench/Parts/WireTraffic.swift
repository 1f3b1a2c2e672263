import TidemarkTestSupport

extension Sample.Wire {
    /// The traffic of a relay between two looks.
    init(requests: Int, from before: TCPRelay.Traffic, to now: TCPRelay.Traffic) {
        self.requests = requests
        bytesUp = Int(now.bytesUp - before.bytesUp)
        bytesDown = Int(now.bytesDown - before.bytesDown)
    }
}
