/// The name of a device for the server's operators, in the header `Tidemark-Device-Name`.
package enum DeviceName {
    package static let charactersMax = 100
    private static let bytesMax = 400

    /// Whether a text can be a name: it is not empty, not too long, and has no control characters.
    package static func isUsable(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= bytesMax && text.count <= charactersMax
            && !text.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }

    /// Refuses a text that cannot be a name, as `invalidArgument`.
    package static func require(_ text: String) throws(TidemarkError) {
        guard !isUsable(text) else { return }
        throw TidemarkError(
            .invalidArgument, "The name of the device is empty, too long, or has control characters.",
            fix: "Give it a name of 1 to \(charactersMax) characters.")
    }
}
