import GRDB

extension Configuration {
    /// Returns the configuration of connections that wait up to 10 s for a lock.
    static func waiting(readonly: Bool = false, label: String? = nil) -> Configuration {
        var configuration = Configuration()
        configuration.readonly = readonly
        configuration.busyMode = .timeout(10)
        configuration.label = label
        return configuration
    }
}
