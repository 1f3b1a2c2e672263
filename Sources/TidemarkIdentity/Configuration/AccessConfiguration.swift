internal import Foundation
package import TidemarkCore
package import TidemarkEngine

/// The file of `tidemark serve --access`: users, rights and limits, read strictly, as a typing error could open a zone.
package struct AccessConfiguration: Hashable, Sendable {
    package var hasOwnUsers: Bool
    package let providers: [IdentityProvider]
    /// The rights that need no membership, by zone.
    package let zones: [String: AccessPolicy.ZoneRights]
    package let limits: RateLimits

    /// Reads a file; throws `unusableFile` with all problems and their places.
    package init(path: String) throws(TidemarkError) {
        let json: Data
        do { json = try Data(contentsOf: URL(filePath: path)) } catch {
            let isThere = FileManager.default.fileExists(atPath: path)
            throw TidemarkError(
                .unusableFile, isThere ? "The access file \(path) cannot be read." : "There is no access file \(path).",
                fix: isThere ? "Give a file that the server's account may read." : "Check the path.")
        }
        let folder = URL(filePath: path).deletingLastPathComponent().path
        let result = Self.read(Array(json), folder: folder)
        guard let configuration = result.configuration else {
            let count = result.problems.count
            throw TidemarkError(
                .unusableFile,
                "The access file \(path) has \(count) problem\(count == 1 ? "" : "s"):"
                    + result.problems.map { "\n  \($0)" }.joined(),
                fix: "Mend \(count == 1 ? "it" : "all of them"), then run `tidemark access check`.")
        }
        self = configuration
    }

    /// The configuration of a server without the file: users of its own, and the standard limits.
    package init() { self.init(hasOwnUsers: true, providers: [], zones: [:], limits: .standard) }

    private init(
        hasOwnUsers: Bool, providers: [IdentityProvider], zones: [String: AccessPolicy.ZoneRights], limits: RateLimits
    ) {
        self.hasOwnUsers = hasOwnUsers
        self.providers = providers
        self.zones = zones
        self.limits = limits
    }

    /// Reads JSON, with paths relative to a folder; returns the configuration, or all problems.
    static func read(_ json: [UInt8], folder: String) -> (configuration: AccessConfiguration?, problems: [String]) {
        guard let value = JSONValue(json) else { return (nil, ["the file is no JSON"]) }
        var reader = ConfigurationReader()
        let members = reader.members(value, at: "", names: ["identity", "zones", "limits"])
        let identity =
            members["identity"].map { reader.members($0, at: "identity", names: ["builtIn", "providers"]) } ?? [:]
        let hasOwnUsers = reader.boolean("builtIn", of: identity, at: "identity")
        let providers = Self.providers(identity["providers"], folder: folder, &reader)
        if !hasOwnUsers, identity["providers"].map({ $0 == .list([]) }) ?? true {
            reader.report("identity", "nobody could sign in: set builtIn to true, or name a provider")
        }
        let configuration = AccessConfiguration(
            hasOwnUsers: hasOwnUsers, providers: providers, zones: Self.zones(members["zones"], &reader),
            limits: Self.limits(members["limits"], &reader))
        return reader.problems.isEmpty ? (configuration, []) : (nil, reader.problems)
    }

    private static func providers(_ value: JSONValue?, folder: String, _ reader: inout ConfigurationReader)
        -> [IdentityProvider]
    {
        guard let value else { return [] }
        guard case .list(let values) = value else {
            reader.report("identity.providers", "write a list, [...]")
            return []
        }
        var providers: [IdentityProvider] = []
        for (index, value) in values.enumerated() {
            let place = "identity.providers[\(index)]"
            guard let provider = ReadProvider(folder: folder).provider(value, at: place, &reader) else { continue }
            if providers.contains(where: { $0.name == provider.name }) {
                reader.report("\(place).name", "another provider has this name")
            }
            if providers.contains(where: { $0.issuer == provider.issuer && $0.audience == provider.audience }) {
                reader.report("\(place).issuer", "another provider has this issuer and audience")
            }
            providers.append(provider)
        }
        return providers
    }

    private static func zones(_ value: JSONValue?, _ reader: inout ConfigurationReader) -> [String: AccessPolicy
        .ZoneRights]
    {
        guard let value else { return [:] }
        let zones = reader.members(value, at: "zones")
        var rights: [String: AccessPolicy.ZoneRights] = [:]
        for name in zones.keys.sorted() {
            guard let zone = zones[name] else { continue }
            let place = "zones.\(name)"
            let members = reader.members(zone, at: place, names: ["everybody", "anonymous"])
            rights[name] = AccessPolicy.ZoneRights(
                everybody: reader.oneOf([Role.reader, .writer], "everybody", of: members, at: place),
                isOpenToAnonymous: reader.boolean("anonymous", of: members, at: place))
        }
        return rights
    }

    private static func limits(_ value: JSONValue?, _ reader: inout ConfigurationReader) -> RateLimits {
        var limits = RateLimits.standard
        guard let value else { return limits }
        let rules = reader.members(value, at: "limits", names: RateLimits.Rule.allCases.map(\.rawValue))
        for rule in RateLimits.Rule.allCases {
            guard let value = rules[rule.rawValue] else { continue }
            let place = "limits.\(rule.rawValue)"
            let members = reader.members(value, at: place, names: ["perMinute", "burst"])
            let bound = RateLimits.Rate.valueMax
            if members["perMinute"] == nil { reader.report("\(place).perMinute", "it is missing") }
            let perMinute = reader.integer("perMinute", of: members, at: place, upTo: bound)
            let burst = reader.integer("burst", of: members, at: place, upTo: bound)
            guard let perMinute else { continue }
            limits[rule] = RateLimits.Rate(perMinute: perMinute, burst: burst ?? perMinute)
        }
        return limits
    }
}

extension AccessPolicy {
    package init(_ configuration: AccessConfiguration, verifier: ProviderTokens) {
        self.init(
            hasOwnUsers: configuration.hasOwnUsers, verifier: configuration.providers.isEmpty ? nil : verifier,
            zones: configuration.zones)
    }
}
