internal import HTTPTypes

/// The content codings that this server supports: identity and gzip.
enum ContentCoding {
    case identity
    case gzip

    /// Reads a body's coding from `Content-Encoding`; nil if the server does not support it.
    init?(contentEncoding: String?) {
        switch contentEncoding?.trimmedLowercased ?? "" {
        case "", "identity": self = .identity
        case "gzip", "x-gzip": self = .gzip
        default: return nil
        }
    }

    /// Chooses an answer's coding from `Accept-Encoding`: gzip if its weight is above 0.
    init(acceptEncoding: String?) {
        var gzipWeight: Double?
        var otherWeight = 0.0
        for element in (acceptEncoding ?? "").split(separator: ",") {
            let parts = element.split(separator: ";").map(\.trimmedLowercased)
            let weight = Self.weight(parts.dropFirst())
            switch parts.first {
            case "gzip", "x-gzip": gzipWeight = weight
            case "*": otherWeight = weight
            default: break
            }
        }
        self = (gzipWeight ?? otherWeight) > 0 ? .gzip : .identity
    }

    /// Returns the `q` among an element's parameters; 1 without one.
    private static func weight(_ parameters: some Sequence<String>) -> Double {
        for parameter in parameters where parameter.hasPrefix("q=") { return Double(parameter.dropFirst(2)) ?? 0 }
        return 1
    }
}

extension StringProtocol {
    fileprivate var trimmedLowercased: String {
        let start = drop { $0 == " " || $0 == "\t" }
        return String(start.reversed().drop { $0 == " " || $0 == "\t" }.reversed()).lowercased()
    }
}
