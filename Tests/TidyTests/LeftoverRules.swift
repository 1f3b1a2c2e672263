/// Reports marks of unfinished work.
///
/// They are spelled in halves here, so that a search for leftovers finds leftovers only.
func unfinishedMarks(_ path: String, _ text: String) -> [Finding] {
    let bytes = Array(text.utf8)
    return ["TO" + "DO", "FIX" + "ME", "XX" + "X"].flatMap { mark in
        offsets(of: mark, in: bytes).map { offset in
            Finding(path, line(at: offset, of: bytes), "\(mark): finish it, or write an issue")
        }
    }
}

/// Reports paths that exist on one machine only.
func machinePaths(_ path: String, _ text: String) -> [Finding] {
    let bytes = Array(text.utf8)
    return ["home", "root", "Users"].flatMap { folder in
        offsets(of: "/" + folder + "/", in: bytes).map { offset in
            Finding(path, line(at: offset, of: bytes), "a path of one machine: make it relative")
        }
    }
}

/// Reports concurrency promises that the compiler cannot check and nobody explains.
func unexplainedUnchecked(_ path: String, _ text: SwiftText) -> [Finding] {
    offsets(of: "@unchecked Sendable", in: text.code).compactMap { offset in
        let number = text.line(at: offset)
        guard !text.hasComment(number + 1) else { return nil }
        return Finding(path, number, "`@unchecked Sendable`: say on the next line why it is safe")
    }
}

/// Reports errors that are dropped without a word.
func unexplainedTry(_ path: String, _ text: SwiftText) -> [Finding] {
    offsets(of: "try?", in: text.code).compactMap { offset in
        let number = text.line(at: offset)
        guard !text.hasComment(number), !text.hasComment(number - 1) else { return nil }
        return Finding(path, number, "`try?`: say here or above why the error may be dropped")
    }
}

/// Reports errors that are caught and forgotten; a comment is no handling.
func emptyCatches(_ path: String, _ text: SwiftText) -> [Finding] {
    offsets(of: "catch", in: text.code).compactMap { offset in
        let rest = text.code[offset...]
        guard let open = rest.firstIndex(of: .openBrace) else { return nil }
        let body = text.code[(open + 1)...]
        guard body.first(where: { $0 != .space && $0 != .newline }) == .closeBrace else { return nil }
        return Finding(path, text.line(at: offset), "an empty `catch`: handle the error or throw")
    }
}

private func line(at offset: Int, of bytes: [UInt8]) -> Int { 1 + bytes[..<offset].count { $0 == .newline } }
