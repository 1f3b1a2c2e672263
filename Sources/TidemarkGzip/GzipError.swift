/// Why bytes could not be decompressed, or a file could not be read or written.
package enum GzipError: Error, Hashable, Sendable {
    /// The decompressed bytes exceed the limit.
    case tooLarge(bytesMax: Int)
    /// The bytes end before their gzip stream does.
    case truncated
    /// The bytes are not a gzip stream, or it is damaged.
    case corrupt
    /// More bytes follow the end of the gzip stream.
    case trailingGarbage
    /// The system refuses an operation on a file; `reason` is the system's message.
    case fileFailed(operation: String, path: String, reason: String)
}

extension GzipError: CustomStringConvertible {
    /// The reason, as the end of a sentence such as "The body cannot be decompressed: ...".
    package var description: String {
        switch self {
        case .tooLarge(let bytesMax): "it holds more than \(bytesMax) bytes"
        case .truncated: "it ends before its gzip stream does"
        case .corrupt: "it is not gzip, or was damaged on the way"
        case .trailingGarbage: "bytes follow the end of its gzip stream"
        case .fileFailed(let operation, let path, let reason): "cannot \(operation) \(path): \(reason)"
        }
    }
}
