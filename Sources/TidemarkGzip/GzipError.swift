/// Why bytes could not be decompressed, or a file could not be read or written.
public enum GzipError: Error, Hashable, Sendable {
    /// The decompressed bytes would be more than the limit.
    case tooLarge(bytesMax: Int)
    /// The bytes end before their gzip stream does.
    case truncated
    /// The bytes are not a gzip stream, or one that was damaged.
    case corrupt
    /// More bytes follow the end of the gzip stream.
    case trailingGarbage
    /// The system refuses an operation on a file: which one, on which path, and why in its words.
    case fileFailed(operation: String, path: String, reason: String)
}

extension GzipError: CustomStringConvertible {
    /// What is wrong, as the end of a sentence such as "The body cannot be decompressed: ...".
    public var description: String {
        switch self {
        case .tooLarge(let bytesMax): "it holds more than \(bytesMax) bytes"
        case .truncated: "it ends before its gzip stream does"
        case .corrupt: "it is not gzip, or was damaged on the way"
        case .trailingGarbage: "bytes follow the end of its gzip stream"
        case .fileFailed(let operation, let path, let reason): "cannot \(operation) \(path): \(reason)"
        }
    }
}
