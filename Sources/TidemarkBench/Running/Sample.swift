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
        self.seconds = seconds
        self.latencies = latencies
        self.wire = wire
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

extension Figure {
    /// The medians of figures of the same name, in the order in which the names came.
    static func medians(of samples: [Sample]) -> [Figure] {
        let first = samples.first?.figures ?? []
        return first.map { figure in
            let values = samples.flatMap(\.figures).filter { $0.name == figure.name }.map(\.value)
            return Figure(figure.name, Spread(values).median, figure.unit)
        }
    }
}
