/// The release of this package.
public enum TidemarkVersion {
    /// The version according to Semantic Versioning.
    public static let current = "0.1.0"
}
