internal import Foundation

struct ReadProvider {
    /// The folder against which the paths of files are resolved.
    let folder: String
    private static let names = ["name", "issuer", "audience", "keys", "secretFile", "algorithms", "user", "claims"]

    /// Returns the provider; nil if it has problems, which go to the reader.
    func provider(_ value: JSONValue, at place: String, _ reader: inout ConfigurationReader) -> IdentityProvider? {
        let problemsBefore = reader.problems.count
        let members = reader.members(value, at: place, names: Self.names)
        let name = reader.text("name", of: members, at: place, isRequired: true) ?? ""
        if !name.isEmpty, name.wholeMatch(of: /[A-Za-z0-9][A-Za-z0-9._-]{0,62}/) == nil {
            reader.report("\(place).name", "write up to 63 letters, digits, dots, hyphens and underscores")
        }
        let issuer = reader.text("issuer", of: members, at: place, isRequired: true) ?? ""
        let audience = reader.text("audience", of: members, at: place, isRequired: true) ?? ""
        let keys = keys(members, at: place, &reader)
        let algorithms = algorithms(members, keys: keys, at: place, &reader)
        let user = reader.text("user", of: members, at: place) ?? "sub"
        let claims = claims(members, at: place, &reader)
        guard reader.problems.count == problemsBefore, let keys else { return nil }
        return IdentityProvider(
            name: name, issuer: issuer, audience: audience, keys: keys, algorithms: algorithms, userClaim: user,
            claims: claims)
    }

    private func keys(_ members: [String: JSONValue], at place: String, _ reader: inout ConfigurationReader)
        -> IdentityProvider.Keys?
    {
        let keys = reader.text("keys", of: members, at: place)
        let secretFile = reader.text("secretFile", of: members, at: place)
        guard (members["keys"] != nil) != (members["secretFile"] != nil) else {
            reader.report(place, "give either keys (a file or an address) or secretFile")
            return nil
        }
        if let secretFile { return .secretFile(path(secretFile)) }
        guard let keys else { return nil }
        guard keys.contains("://") else { return .file(path(keys)) }
        guard FetchKeys.isSafe(keys) else {
            reader.report(
                "\(place).keys", "the address begins with https://, or names this machine; it has no password")
            return nil
        }
        return .url(keys)
    }

    private func algorithms(
        _ members: [String: JSONValue], keys: IdentityProvider.Keys?, at place: String,
        _ reader: inout ConfigurationReader
    ) -> Set<SignatureAlgorithm> {
        let place = "\(place).algorithms"
        let isSecret = if case .secretFile = keys { true } else { false }
        guard let value = members["algorithms"] else {
            if isSecret { return [.hs256] }
            reader.report(
                place, "it is missing: write a list of \(ConfigurationReader.list(SignatureAlgorithm.published))")
            return []
        }
        let names = value.texts ?? []
        let algorithms = Set(names.compactMap(SignatureAlgorithm.init(rawValue:)))
        guard !names.isEmpty, algorithms.count == names.count else {
            reader.report(
                place,
                "write a list of \(ConfigurationReader.list(SignatureAlgorithm.published)), each once; "
                    + "with secretFile, \"HS256\" alone")
            return []
        }
        if let keys, algorithms.contains(.hs256) != isSecret || isSecret && algorithms.count > 1 {
            switch keys {
            case .secretFile: reader.report(place, "a secret is for \"HS256\" alone")
            case .file, .url: reader.report(place, "\"HS256\" needs secretFile, and a provider of its own")
            }
        }
        return algorithms
    }

    private func claims(_ members: [String: JSONValue], at place: String, _ reader: inout ConfigurationReader)
        -> [String: ClaimType]
    {
        guard let value = members["claims"] else { return [:] }
        let place = "\(place).claims"
        var claims: [String: ClaimType] = [:]
        let types = reader.members(value, at: place)
        for name in types.keys.sorted() { claims[name] = reader.oneOf(ClaimType.allCases, name, of: types, at: place) }
        return claims
    }

    private func path(_ path: String) -> String { path.hasPrefix("/") ? path : "\(folder)/\(path)" }
}
