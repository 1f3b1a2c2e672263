extension [UInt8] {
    /// Whether these bytes contain a non-empty sequence of bytes.
    package func contain(_ part: [UInt8]) -> Bool {
        guard let first = part.first, count >= part.count else { return false }
        return withUnsafeBufferPointer { bytes in
            (0...(bytes.count - part.count)).contains { start in
                bytes[start] == first && bytes[start...].starts(with: part)
            }
        }
    }
}
