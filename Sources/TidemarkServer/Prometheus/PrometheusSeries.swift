internal import CoreMetrics
internal import Synchronization

/// One metric with one set of labels.
protocol PrometheusSeries: AnyObject, Sendable {
    /// Renders the samples.
    func lines(_ name: String, _ labels: [(String, String)]) -> String
}

/// A number that only grows.
final class PrometheusCounter: PrometheusSeries, CounterHandler {
    private let value = Mutex<Int64>(0)

    func increment(by amount: Int64) {
        guard amount > 0 else { return }
        value.withLock { value in
            let (sum, isTooMuch) = value.addingReportingOverflow(amount)
            value = isTooMuch ? .max : sum
        }
    }

    /// Does nothing, because Prometheus takes a smaller counter for a restarted process.
    func reset() {}

    func lines(_ name: String, _ labels: [(String, String)]) -> String {
        PrometheusText.sample(name, labels: labels, value: "\(value.withLock { $0 })")
    }
}

/// A number that goes up and down.
final class PrometheusGauge: PrometheusSeries, MeterHandler, RecorderHandler {
    private let value = Mutex(0.0)

    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { self.value.withLock { $0 = value } }
    func increment(by amount: Double) { value.withLock { $0 += amount } }
    func decrement(by amount: Double) { value.withLock { $0 -= amount } }
    func record(_ value: Int64) { set(value) }
    func record(_ value: Double) { set(value) }

    func lines(_ name: String, _ labels: [(String, String)]) -> String {
        PrometheusText.sample(name, labels: labels, value: PrometheusText.number(value.withLock { $0 }))
    }
}

/// Counts values up to each bound.
final class PrometheusHistogram: PrometheusSeries, RecorderHandler, TimerHandler {
    private struct State {
        /// The count of values between each bound and the previous one; the last is above all bounds.
        var counts: [Int64]
        var sum = 0.0
    }

    private let bounds: [Double]
    private let state: Mutex<State>

    init(bounds: [Double]) {
        self.bounds = bounds
        state = Mutex(State(counts: Array(repeating: 0, count: bounds.count + 1)))
    }

    func record(_ value: Int64) { record(Double(value)) }

    func record(_ value: Double) {
        guard !value.isNaN else { return }
        let index = bounds.firstIndex { value <= $0 } ?? bounds.count
        state.withLock { state in
            state.counts[index] += 1
            state.sum += value
        }
    }

    /// Records a duration in seconds.
    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

    func lines(_ name: String, _ labels: [(String, String)]) -> String {
        let state = state.withLock { $0 }
        var text = ""
        var count = Int64(0)
        for (bound, number) in zip(bounds + [.infinity], state.counts) {
            count += number
            text += PrometheusText.sample(
                "\(name)_bucket",
                labels: labels + [("le", PrometheusText.number(bound))],
                value: "\(count)"
            )
        }
        text += PrometheusText.sample("\(name)_sum", labels: labels, value: PrometheusText.number(state.sum))
        return text + PrometheusText.sample("\(name)_count", labels: labels, value: "\(count)")
    }
}
