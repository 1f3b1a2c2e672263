import Testing
import TidemarkEngine

/// Rule 31: the forming of groups: in order of arrival, within bounds, one group at a time.
@Suite struct GroupQueueTests {
    private static func queue(_ bytes: [Int], entriesMax: Int = 64) -> GroupQueue<Int> {
        var queue = GroupQueue<Int>(bounds: .init(entriesMax: entriesMax, bytesMax: 100))
        for (number, bytes) in bytes.enumerated() { queue.append(number, bytes: bytes, ticket: UInt64(number)) }
        return queue
    }

    @Test func `all waiting requests form one group, in order of arrival`() {
        var queue = Self.queue([1, 1, 1])
        #expect(queue.next() == [0, 1, 2])
        #expect(queue.count == 0)
    }

    @Test func `a request does not wait for others, and none joins a group in flight`() {
        var queue = Self.queue([1])
        #expect(queue.next() == [0])
        queue.append(1, bytes: 1, ticket: 1)
        queue.append(2, bytes: 1, ticket: 2)
        #expect(queue.next() == nil)
        queue.finishGroup(answeredCount: 1)
        #expect(queue.next() == [1, 2])
        queue.finishGroup(answeredCount: 2)
        #expect(queue.next() == nil)
    }

    @Test func `the number of requests in a group is bounded`() {
        var queue = Self.queue([1, 1, 1, 1, 1], entriesMax: 2)
        var groups: [[Int]] = []
        while let group = queue.next() {
            groups.append(group)
            queue.finishGroup(answeredCount: group.count)
        }
        #expect(groups == [[0, 1], [2, 3], [4]])
    }

    @Test func `the bytes of a group are bounded, and a larger request forms its own group`() {
        var queue = Self.queue([60, 40, 1, 300, 1])
        var groups: [[Int]] = []
        while let group = queue.next() {
            groups.append(group)
            queue.finishGroup(answeredCount: group.count)
        }
        #expect(groups == [[0, 1], [2], [3], [4]])
    }

    @Test func `unanswered requests of a group come before newer ones`() {
        var queue = Self.queue([1, 1, 1])
        #expect(queue.next() == [0, 1, 2])
        queue.append(3, bytes: 1, ticket: 3)
        queue.finishGroup(answeredCount: 1)
        #expect(queue.next() == [1, 2, 3])
    }

    @Test func `a waiting request can be cancelled, one in flight cannot`() {
        var queue = Self.queue([1, 1, 1], entriesMax: 1)
        #expect(queue.next() == [0])
        #expect(queue.leave(0) == nil)
        #expect(queue.leave(1) == 1)
        #expect(queue.leave(1) == nil)
        queue.finishGroup(answeredCount: 1)
        #expect(queue.next() == [2])
    }
}
