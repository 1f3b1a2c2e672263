extension [UInt8] {
    /// Whether some bytes, at least one, stand in these, one after the other.
    package func contain(_ part: [UInt8]) -> Bool {
        guard let first = part.first, count >= part.count else { return false }
        return withUnsafeBufferPointer { bytes in
            (0...(bytes.count - part.count)).contains { start in
                bytes[start] == first && bytes[start...].starts(with: part)
            }
        }
    }
}
