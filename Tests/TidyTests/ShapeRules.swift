/// Reports functions of the product and its tools whose call does not say what its values mean.
func unlabelledParameters(_ path: String, _ text: SwiftText) -> [Finding] {
    guard path.hasPrefix("Sources/") else { return [] }
    return ["func", "init"].flatMap { keyword in
        offsets(of: keyword, in: text.code).compactMap { start in
            let isCall = start > 0 && text.code[start - 1] == UInt8(ascii: ".")
            guard !isCall, let list = parameterList(after: start, in: text.code) else { return nil }
            let count = list.count { $0.wholeMatch(of: /\s*(?:@\w+\s+)*_\s+\w+\s*/) != nil }
            guard count >= 3 else { return nil }
            return Finding(path, text.line(at: start), "\(count) unlabelled parameters: label all but the first")
        }
    }
}

/// What stands before the colon of each parameter of the declaration at `start`.
private func parameterList(after start: Int, in code: [UInt8]) -> [String]? {
    let tail = code[start...]
    guard let open = tail.firstIndex(of: .openParenthesis),
        !tail[..<open].contains(.newline), !tail[..<open].contains(.openBrace)
    else { return nil }
    var depth = 0
    var isName = true
    var names = [""]
    for byte in code[open...] {
        switch byte {
        case .openParenthesis, UInt8(ascii: "["), .openBrace: depth += 1
        case .closeParenthesis, UInt8(ascii: "]"), .closeBrace:
            depth -= 1
            if depth == 0 { return names }
        case UInt8(ascii: ":") where depth == 1: isName = false
        case UInt8(ascii: ",") where depth == 1:
            names.append("")
            isName = true
            continue
        default: break
        }
        guard isName, depth == 1, byte != .openParenthesis else { continue }
        names[names.count - 1] += String(decoding: [byte], as: UTF8.self)
    }
    return nil
}

/// Reports assignments of several values at once: a line saved costs each reader.
func tupleAssignments(_ path: String, _ text: SwiftText) -> [Finding] {
    (1...max(1, text.lineCount)).compactMap { number in
        let line = text.line(number, of: text.code)
        guard line.contains(/^[a-z ]*\([\w.]+(?:, [\w.]+)+\)(?:: \([^)]*\))? = \(/) else { return nil }
        return Finding(path, number, "a tuple is assigned: write a line for each value")
    }
}
