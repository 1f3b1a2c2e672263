import Testing
import TidemarkServer

/// Rule 31: who is committed together: in order of arrival, within bounds, one group at a time.
@Suite struct GroupQueueTests {
    private static func queue(_ bytes: [Int], entriesMax: Int = 64) -> GroupQueue<Int> {
        var queue = GroupQueue<Int>(bounds: .init(entriesMax: entriesMax, bytesMax: 100))
        for (number, bytes) in bytes.enumerated() { queue.append(number, bytes: bytes, ticket: UInt64(number)) }
        return queue
    }

    @Test func `whoever waits goes together, in order of arrival`() {
        var queue = Self.queue([1, 1, 1])
        #expect(queue.next() == [0, 1, 2])
        #expect(queue.count == 0)
    }

    @Test func `nobody waits for others to come, and nobody joins a group in flight`() {
        var queue = Self.queue([1])
        #expect(queue.next() == [0])
        queue.append(1, bytes: 1, ticket: 1)
        queue.append(2, bytes: 1, ticket: 2)
        #expect(queue.next() == nil)
        queue.land(answered: 1)
        #expect(queue.next() == [1, 2])
        queue.land(answered: 2)
        #expect(queue.next() == nil)
    }

    @Test func `a group is bounded in number`() {
        var queue = Self.queue([1, 1, 1, 1, 1], entriesMax: 2)
        var groups: [[Int]] = []
        while let group = queue.next() {
            groups.append(group)
            queue.land(answered: group.count)
        }
        #expect(groups == [[0, 1], [2, 3], [4]])
    }

    @Test func `a group is bounded in bytes, and who is larger than that goes alone`() {
        var queue = Self.queue([60, 40, 1, 300, 1])
        var groups: [[Int]] = []
        while let group = queue.next() {
            groups.append(group)
            queue.land(answered: group.count)
        }
        #expect(groups == [[0, 1], [2], [3], [4]])
    }

    @Test func `who was left over comes first again, before those that came meanwhile`() {
        var queue = Self.queue([1, 1, 1])
        #expect(queue.next() == [0, 1, 2])
        queue.append(3, bytes: 1, ticket: 3)
        queue.land(answered: 1)
        #expect(queue.next() == [1, 2, 3])
    }

    @Test func `who waits may leave, who is in flight may not`() {
        var queue = Self.queue([1, 1, 1], entriesMax: 1)
        #expect(queue.next() == [0])
        #expect(queue.leave(0) == nil)
        #expect(queue.leave(1) == 1)
        #expect(queue.leave(1) == nil)
        queue.land(answered: 1)
        #expect(queue.next() == [2])
    }
}
