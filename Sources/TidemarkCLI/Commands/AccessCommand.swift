import ArgumentParser
import TidemarkCore
import TidemarkEngine
import TidemarkTerminal

/// `tidemark access`: questions about rights.
struct AccessCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "access",
        abstract: "Explain who may do something at a server, and why.",
        subcommands: [Explain.self, AccessCheck.self]
    )

    /// `tidemark access explain`.
    struct Explain: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Explain whether a user can sync a zone, with every fact that decides it.",
            discussion: "  tidemark access explain anna main --data ./data"
        )
        @Argument(help: "The user's name.") var user: String
        @Argument(help: "The zone.") var zone: String
        @OptionGroup var place: AccessPlace

        func run() async throws {
            try await Terminal.run {
                let answer = try await place.transaction { [user, zone, location = place.location] statements, now, _ in
                    ExplanationText(
                        try AccessExplanation(of: user, in: zone, from: statements, now: now),
                        at: location,
                        now: now
                    )
                }
                if place.json { return try Terminal.json(answer) }
                Terminal.line(answer.answer)
                Terminal.table(answer.facts.map { [$0.name, $0.value] })
                if let advice = answer.whatToDo { Terminal.line("what to do: \(advice)") }
            }
        }
    }
}

/// An explanation in words.
private struct ExplanationText: Encodable {
    struct Fact: Encodable {
        let name: String
        let value: String
    }

    let user: String
    let zone: String
    let outcome: String
    let answer: String
    let facts: [Fact]
    let whatToDo: String?

    init(_ explanation: AccessExplanation, at location: AccessLocation, now: Int64) {
        user = explanation.user
        zone = explanation.zone
        outcome = explanation.outcome.rawValue
        answer = Self.answer(explanation)
        facts = Self.facts(explanation, now: now)
        whatToDo = Self.advice(explanation).map { "\($0) \(location.arguments)" }
    }

    private static func answer(_ explanation: AccessExplanation) -> String {
        let user = explanation.user
        let zone = explanation.zone
        return switch explanation.outcome {
        case .mayWrite: "\(user) can sync zone \(zone)."
        case .mayRead: "\(user) can read zone \(zone); the server refuses changes of a reader."
        case .hasNoToken: "\(user) cannot sync zone \(zone): no device of \(user) has a token that is good now."
        case .isFormerMember: "\(user) cannot sync zone \(zone): \(user) is no longer a member."
        case .isNoMember: "\(user) cannot sync zone \(zone): \(user) never was a member."
        case .isDisabled: "\(user) cannot sync: the user is disabled."
        case .isUnknown: "\(user) cannot sync: the server knows no such user."
        }
    }

    private static func facts(_ explanation: AccessExplanation, now: Int64) -> [Fact] {
        let at = { (change: AccessExplanation.Change?) in
            change.map { "since \(AccessTexts.time($0.time)), by \(AccessTexts.author($0.author))" }
        }
        let role =
            switch explanation.standing {
            case .member(let role): role.rawValue
            case .former: "none"
            case .stranger: "never a member"
            }
        let tokens = explanation.tokens.map { token in
            let device = token.device.map { ", device \($0)" } ?? ""
            return Fact(
                name: "token \(token.id)",
                value:
                    "\(token.kind.name), \(token.condition(at: now)), until \(AccessTexts.time(token.expires))\(device)"
            )
        }
        return [
            Fact(name: "user", value: at(explanation.added) ?? "unknown"),
            Fact(name: "disabled", value: at(explanation.disabled) ?? "no"),
            Fact(name: "role", value: [role, at(explanation.roleChange)].compactMap { $0 }.joined(separator: ", ")),
        ] + (tokens.isEmpty ? [Fact(name: "tokens", value: "none")] : tokens)
    }

    private static func advice(_ explanation: AccessExplanation) -> String? {
        let user = explanation.user
        return switch explanation.outcome {
        case .mayWrite: nil
        case .mayRead: "tidemark user role \(user) writer --zone \(explanation.zone)"
        case .hasNoToken: "tidemark user sign-in \(user)"
        case .isFormerMember, .isNoMember: "tidemark user role \(user) writer --zone \(explanation.zone)"
        case .isDisabled: "tidemark user enable \(user)"
        case .isUnknown: "tidemark user add \(user)"
        }
    }
}
