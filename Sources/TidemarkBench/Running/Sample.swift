/// The measurements of one run of a job.
package struct Sample: Sendable {
    /// Its time, in seconds.
    package var seconds: Double
    /// The time of each of its parts, in seconds, if it has many.
    package var latencies: [Double] = []
    /// Its traffic.
    package var wire: Wire?
    /// Other figures.
    package var figures: [Figure] = []
    /// The bytes of each day in both directions, if the job has days.
    package var dailyBytes: [Int] = []

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

    /// Times a synchronous job.
    static func time(_ work: () throws -> Void) throws -> Sample {
        let start = ContinuousClock.now
        try work()
        return Sample(seconds: (ContinuousClock.now - start) / .seconds(1))
    }
}

extension Figure {
    /// The medians of figures of the same name, in the order of their first occurrence.
    static func medians(of samples: [Sample]) -> [Figure] {
        let first = samples.first?.figures ?? []
        return first.map { figure in
            let values = samples.flatMap(\.figures).filter { $0.name == figure.name }.map(\.value)
            return Figure(figure.name, value: Spread(values).median, unit: figure.unit)
        }
    }
}
