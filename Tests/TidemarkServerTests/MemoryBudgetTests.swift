import Testing
import TidemarkTestSupport

@testable import TidemarkServer

/// Rule 21: the budget of memory for requests and answers, without any server.
@Suite struct MemoryBudgetTests {
    private let bounds = MemoryBudget.Bounds(bytesMax: 800, bodyBytesMax: 300, smallBytesMax: 10)

    @Test func `bodies that grow at the same time never deadlock`() {
        for seed in 0..<200 as Range<UInt64> {
            var world = BudgetWorld(bounds: bounds, seed: seed, exchanges: 40)
            let steps = world.run()
            #expect(world.finished == 40, "seed \(seed) stopped after \(steps) steps")
            // A single answer may pass without free memory.
            #expect(world.bytesPeak <= bounds.bytesMax + 100)
            #expect(world.budget.bytes == 0)
        }
    }

    @Test func `a small request fits the reserve when large ones use all shared memory`() {
        let ledger = Ledger(bounds)
        let first = ledger.open()
        let second = ledger.open()
        let third = ledger.open()
        #expect(ledger.grow(first, to: 300))
        ledger.finishReading(first)
        #expect(ledger.grow(second, to: 300))
        #expect(!ledger.grow(third, to: 300))
        #expect(ledger.grow(ledger.open(), to: 10))
        ledger.close(first)
        #expect(ledger.admit() == [third])
    }

    @Test func `small requests beyond the reserve use the shared memory`() {
        let ledger = Ledger(bounds)
        var granted = 0
        while ledger.grow(ledger.open(), to: 10) { granted += 1 }
        // The reserve holds 10; the others leave the memory that one of them needs to grow.
        #expect(granted > 30)
        #expect(ledger.bytes <= bounds.bytesMax)
    }

    @Test func `an answer leaves memory for the next body, unless it is the only one`() {
        let ledger = Ledger(bounds)
        let first = ledger.open()
        let second = ledger.open()
        #expect(ledger.answer(first, bytes: 5_000))
        #expect(!ledger.answer(second, bytes: 100))
        #expect(ledger.answer(second, bytes: 10))
        #expect(ledger.answer(first, bytes: 390))
        #expect(!ledger.answer(ledger.open(), bytes: 20))
        #expect(ledger.grow(ledger.open(), to: 300))
    }

    @Test func `a share returned twice, or while it waits, is counted once`() {
        let ledger = Ledger(bounds)
        let first = ledger.open()
        let second = ledger.open()
        let third = ledger.open()
        #expect(ledger.grow(first, to: 300))
        #expect(ledger.grow(second, to: 300))
        #expect(!ledger.grow(third, to: 200))
        for ticket in [third, first, first, second] { ledger.close(ticket) }
        #expect(ledger.bytes == 0)
        #expect(ledger.admit().isEmpty)
        #expect(!ledger.leave(third))
    }
}

/// A budget shared by concurrent parts of a test.
private final class Ledger {
    private var budget: MemoryBudget

    init(_ bounds: MemoryBudget.Bounds) { budget = MemoryBudget(bounds: bounds) }

    var bytes: Int { budget.bytes }

    func open() -> MemoryBudget.Ticket { budget.open() }
    func grow(_ ticket: MemoryBudget.Ticket, to bytes: Int) -> Bool { budget.grow(ticket, to: bytes) }
    func finishReading(_ ticket: MemoryBudget.Ticket) { budget.finishReading(ticket) }
    func answer(_ ticket: MemoryBudget.Ticket, bytes: Int) -> Bool { budget.answer(ticket, bytes: bytes) }
    func leave(_ ticket: MemoryBudget.Ticket) -> Bool { budget.leave(ticket) }
    func close(_ ticket: MemoryBudget.Ticket) { budget.close(ticket) }
    func admit() -> [MemoryBudget.Ticket] { budget.admit() }
}

/// Exchanges that take their next step in a random order: bodies that grow, then answers.
private struct BudgetWorld {
    private struct Exchange {
        let ticket: MemoryBudget.Ticket
        let bodyBytes: Int
        let answerBytes: Int
        var bytes = 0
        var isHandled = false
        var isWaiting = false
    }

    private(set) var budget: MemoryBudget
    private(set) var bytesPeak = 0
    private(set) var finished = 0
    private var exchanges: [Exchange] = []
    private var random: SeededGenerator

    init(bounds: MemoryBudget.Bounds, seed: UInt64, exchanges count: Int) {
        budget = MemoryBudget(bounds: bounds)
        random = SeededGenerator(seed: seed)
        for _ in 0..<count {
            let bodyBytes = Int.random(in: 1...bounds.bodyBytesMax, using: &random)
            let answerBytes = Int.random(in: 1...100, using: &random)
            let ticket = budget.open()
            exchanges.append(Exchange(ticket: ticket, bodyBytes: bodyBytes, answerBytes: answerBytes))
        }
    }

    /// Takes steps until none is possible; returns their number.
    mutating func run() -> Int {
        var steps = 0
        while let place = exchanges.indices.filter({ !exchanges[$0].isWaiting }).randomElement(using: &random) {
            step(place)
            steps += 1
            bytesPeak = max(bytesPeak, budget.bytes)
        }
        return steps
    }

    private mutating func step(_ place: Int) {
        let exchange = exchanges[place]
        if exchange.bytes < exchange.bodyBytes {
            let bytes = min(exchange.bytes + Int.random(in: 1...40, using: &random), exchange.bodyBytes)
            exchanges[place].bytes = bytes
            exchanges[place].isWaiting = !budget.grow(exchange.ticket, to: bytes)
            return
        }
        if !exchange.isHandled {
            budget.finishReading(exchange.ticket)
            exchanges[place].isHandled = true
        } else {
            // A refused answer ends the exchange just as a sent one.
            if !budget.answer(exchange.ticket, bytes: exchange.answerBytes) || Bool.random(using: &random) {
                budget.close(exchange.ticket)
                exchanges.remove(at: place)
                finished += 1
            }
        }
        for ticket in budget.admit() {
            guard let place = exchanges.firstIndex(where: { $0.ticket == ticket }) else { continue }
            exchanges[place].isWaiting = false
        }
    }
}
