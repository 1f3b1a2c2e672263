import CHiredis
import Foundation

/// One connection to Redis, through hiredis: synchronous, for one thread at a time, and unusable after any failure.
package final class RedisConnection {
    package enum Reply: Hashable, Sendable {
        case bytes([UInt8])
        case integer(Int64)
        case array([Reply])
        case status(String)
        case none
    }

    private let context: UnsafeMutablePointer<redisContext>

    /// Connects; `milliseconds` is the longest wait for the connection and for each answer.
    package init(_ address: RedisAddress, milliseconds: Int) throws {
        let limit = timeval(tv_sec: milliseconds / 1_000, tv_usec: .init(milliseconds % 1_000 * 1_000))
        guard let context = redisConnectWithTimeout(address.host, address.port, limit) else {
            throw RedisFailure(message: "no memory")
        }
        self.context = context
        try check(context.pointee.err == 0)
        try check(redisSetTimeout(context, limit) == REDIS_OK)
        if let password = address.password { _ = try run(["AUTH"] + [address.user].compactMap { $0 } + [password]) }
        if address.database != 0 { _ = try run(["SELECT", "\(address.database)"]) }
    }

    deinit { redisFree(context) }

    /// Makes the process ignore `SIGPIPE`, which hiredis does not suppress when it writes to a closed connection.
    static func ignoreBrokenPipes() { signal(SIGPIPE, SIG_IGN) }
    package func run(_ command: [String]) throws -> Reply { try run(command.map { Array($0.utf8) }) }

    func run(_ command: [[UInt8]]) throws -> Reply {
        try send(command)
        return try receive()
    }

    /// Writes a command into the buffer; ``receive()`` sends it.
    func send(_ command: [[UInt8]]) throws {
        let lengths = command.map(\.count)
        let starts = lengths.reduce(into: [0]) { $0.append($0[$0.count - 1] + $1) }
        // A zero after each word keeps the pointers of empty words inside the buffer.
        let bytes: [UInt8] = Array(command.map { $0 + [0] }.joined())
        let result = bytes.withUnsafeBytes { buffer in
            let text = buffer.bindMemory(to: CChar.self)
            var words = starts.dropLast().enumerated().map { index, start in
                text.baseAddress?.advanced(by: start + index)
            }
            return redisAppendCommandArgv(context, Int32(words.count), &words, lengths)
        }
        try check(result == REDIS_OK)
    }

    /// Sends the buffer, and waits for the reply to the oldest open command.
    func receive() throws -> Reply {
        var reply: UnsafeMutableRawPointer?
        try check(redisGetReply(context, &reply) == REDIS_OK)
        guard let reply else { return .none }
        defer { freeReplyObject(reply) }
        let value = reply.assumingMemoryBound(to: redisReply.self).pointee
        if value.type == REDIS_REPLY_ERROR { throw RedisFailure(message: Self.text(value)) }
        return Self.value(value)
    }

    private func check(_ isSuccess: Bool) throws {
        guard !isSuccess else { return }
        let message = withUnsafeBytes(of: &context.pointee.errstr) { bytes in
            String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
        throw RedisFailure(message: message)
    }

    private static func value(_ reply: redisReply) -> Reply {
        switch reply.type {
        case REDIS_REPLY_STRING: .bytes(Array(UnsafeRawBufferPointer(start: reply.str, count: reply.len)))
        case REDIS_REPLY_INTEGER: .integer(reply.integer)
        case REDIS_REPLY_ARRAY:
            .array((0..<reply.elements).map { index in reply.element[index].map { value($0.pointee) } ?? .none })
        case REDIS_REPLY_STATUS: .status(text(reply))
        default: .none
        }
    }

    private static func text(_ reply: redisReply) -> String {
        String(decoding: UnsafeRawBufferPointer(start: reply.str, count: reply.len), as: UTF8.self)
    }
}

struct RedisFailure: Error, Hashable { let message: String }
