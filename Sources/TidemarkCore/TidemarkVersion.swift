/// Which release this is.
public enum TidemarkVersion {
    /// The version, by Semantic Versioning.
    public static let current = "0.1.0"
}
