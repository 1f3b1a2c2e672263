/// The largest group of files of one target that all need each other, counted with the members of extensions.
///
/// A file needs another one when it names a type that the other declares (``fileCycles(_:most:)``), or uses a function
/// or property of an extension there. A type can move to a file of its own while its methods still call each other
/// across files, and names of types do not show that. Only members count whose name no other file of the target
/// declares; a use is the name after a dot, before arguments or before a closure.
func largestKnot(_ files: [SourceWords]) -> [String] {
    var needs = neededFiles(files.map { ($0.path, $0.text) })
    let homes = extensionMembers(files)
    for file in files {
        let uses = file.words.filter { word in
            word.last == UInt8(ascii: ".") || word.next == .openParenthesis || word.next == .openBrace
        }
        needs[file.path, default: []].formUnion(Set(uses.compactMap { homes[$0.text] }).subtracting([file.path]))
    }
    return stronglyConnected(needs).max { $0.count < $1.count } ?? []
}

/// By name the file of each member of an extension that other files see, if no other file declares the name.
private func extensionMembers(_ files: [SourceWords]) -> [String: String] {
    let kinds: Set<String> = ["func", "var", "let", "case"]
    var declaring: [String: Set<String>] = [:]
    var homes: [String: String] = [:]
    for file in files {
        let words = file.words
        var isInExtension = false
        for (at, word) in words.enumerated().dropLast() {
            if word.depth == 0, topLevelKinds.contains(word.text) {
                isInExtension = word.text == "extension" && !isPrivate(words, at)
            }
            guard kinds.contains(word.text), word.depth == 1 || word.text == "func" else { continue }
            let name = words[at + 1].text
            declaring[name, default: []].insert(file.path)
            let isShared = isInExtension && word.depth == 1 && word.text != "case" && !isPrivate(words, at)
            if isShared { homes[name] = file.path }
        }
    }
    return homes.filter { declaring[$0.key]?.count == 1 }
}

private let topLevelKinds: Set<String> = [
    "extension", "struct", "class", "enum", "actor", "protocol", "func", "var", "let",
]

/// Whether the line of a declaration says that only its file sees it.
private func isPrivate(_ words: [CodeWord], _ at: Int) -> Bool {
    var position = at
    while position > 0, words[position].indent == nil {
        position -= 1
        if ["private", "fileprivate"].contains(words[position].text) { return true }
    }
    return false
}
