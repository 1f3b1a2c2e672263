/// The errors of a text that is not JSON, or not JSON as the protocol has it.
enum JSONFault {
    /// A byte stands where JSON cannot have it, or the text ends too early.
    static func syntax(at place: Int, of text: UnsafeBufferPointer<UInt8>) -> TidemarkError {
        if place < text.count, text[place] < 0x20 { return controlCharacter(text[place]) }
        let cause =
            text.isEmpty
            ? "it is empty."
            : place < text.count
                ? "it is no JSON from byte \(place + 1) on."
                : "it ends after byte \(text.count), before its JSON does."
        return malformed(
            "The body cannot be read: \(cause)", fix: #"The shortest request is {"maxRevision":0,"changeSets":[]}."#)
    }

    static let noRequest = malformed(
        "The body cannot be read: it is not a JSON object.",
        fix: #"The shortest request is {"maxRevision":0,"changeSets":[]}."#)

    static let notUTF8 = malformed(
        "The body is not UTF-8.", fix: #"Send UTF-8; send other bytes as {"$blob":"<base64>"}."#)

    static func tooDeep(_ depthMax: Int) -> TidemarkError {
        malformed("The JSON nests deeper than \(depthMax) levels.", fix: "A request needs six levels; see PROTOCOL.md.")
    }

    /// A name spells a character as an escape that needs none.
    static func escapedName(_ code: UInt8) -> TidemarkError {
        guard code > 0 else { return controlCharacter(code) }
        return malformed(
            "A name spells a letter, a digit, $ or _ as an escape.",
            fix: "Write such characters as they are; only others may be escaped in names.")
    }

    static func repeatedName(_ name: String) -> TidemarkError {
        TidemarkError(
            .duplicateName, "The name \(name) appears twice in one object.",
            fix: "Give each name once: readers of JSON disagree on which one counts.")
    }

    /// A string is longer than any value; base64 is longer than its bytes by a third.
    static func longString(_ count: Int, _ max: Int) -> TidemarkError {
        TidemarkError(
            .tooLarge, "A string in the body has \(count) bytes; a synced value has at most \(max / 4 * 3).",
            fix: "Keep large values in files beside the database and sync the files' paths.")
    }

    private static func controlCharacter(_ byte: UInt8) -> TidemarkError {
        malformed(
            "The body has a control character, byte \(byte), where JSON or a name can have none.",
            fix: "Escape control characters in strings; no name or key contains NUL.")
    }

    private static func malformed(_ message: String, fix: String) -> TidemarkError {
        TidemarkError(.malformedRequest, message, fix: fix)
    }
}

extension TidemarkError {
    /// Returns the error with the parts of a place that it does not name itself.
    package func within(_ outer: Place) -> TidemarkError {
        var error = self
        error.place.changeSet = place.changeSet ?? outer.changeSet
        error.place.id = place.id ?? outer.id
        error.place.table = place.table ?? outer.table
        error.place.key = place.key ?? outer.key
        error.place.column = place.column ?? outer.column
        return error
    }
}
