/// What one run of a job took.
package struct Sample: Sendable {
    /// How long it took, in seconds.
    package var seconds: Double
    /// How long each of its parts took, in seconds, where it has many.
    package var latencies: [Double] = []
    /// What went over the wire.
    package var wire: Wire?
    /// What else was measured.
    package var figures: [Figure] = []

    /// Bytes and requests on a connection, HTTP's own included.
    package struct Wire: Hashable, Sendable, Encodable {
        /// The requests.
        package var requests: Int
        /// The bytes to the server.
        package var bytesUp: Int
        /// The bytes from it.
        package var bytesDown: Int
    }

    /// Makes a sample.
    package init(seconds: Double, latencies: [Double] = [], wire: Wire? = nil) {
        (self.seconds, self.latencies, self.wire) = (seconds, latencies, wire)
    }

    /// Times a job.
    static func time(_ work: () async throws -> Void) async throws -> Sample {
        let start = ContinuousClock.now
        try await work()
        return Sample(seconds: (ContinuousClock.now - start) / .seconds(1))
    }

    /// Times a job that does not wait for others.
    static func time(_ work: () throws -> Void) throws -> Sample {
        let start = ContinuousClock.now
        try work()
        return Sample(seconds: (ContinuousClock.now - start) / .seconds(1))
    }
}

/// The middle of some numbers, and their ends.
package struct Spread: Hashable, Sendable, Encodable {
    /// Half of them are below.
    package let median: Double
    /// The least.
    package let min: Double
    /// The greatest.
    package let max: Double

    /// Sums up numbers, of which there is at least one.
    package init(_ numbers: [Double]) {
        let sorted = numbers.sorted()
        let middle = sorted.count / 2
        median =
            sorted.count.isMultiple(of: 2)
            ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
        (min, max) = (sorted[0], sorted[sorted.count - 1])
    }

    /// The number below which a part of them lies, by rank.
    package static func percentile(_ part: Double, of numbers: [Double]) -> Double? {
        guard !numbers.isEmpty else { return nil }
        let sorted = numbers.sorted()
        return sorted[Swift.min(sorted.count - 1, Int(Double(sorted.count) * part))]
    }
}
