import Synchronization

/// What follows from a schema, made when it is needed first and then kept.
///
/// It distinguishes no two schemas. Safe to use from any thread.
final class SchemaForms: Sendable {
    private let forms = Mutex<[ObjectIdentifier: any Sendable]>([:])

    /// Returns the form of a type.
    func form<Form: Sendable>(_ make: () -> Form) -> Form {
        let key = ObjectIdentifier(Form.self)
        if let form = forms.withLock({ $0[key] }) as? Form { return form }
        // Two threads may make it at once; both forms are the same.
        let form = make()
        forms.withLock { $0[key] = form }
        return form
    }
}

extension SchemaForms: Hashable {
    static func == (one: SchemaForms, other: SchemaForms) -> Bool { true }

    func hash(into hasher: inout Hasher) {}
}
