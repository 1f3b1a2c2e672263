import TidemarkCore
import Testing

@testable import Tidemark

/// The tables of an account's stages and of a sign-in's plan, each pair once.
@Suite struct AccountStageTests {
    private static let events: [AccountStage.Event] = [
        .signedIn(user: "anna"), .signedIn(user: "ben"), .signOut(removesFiles: false), .signOut(removesFiles: true),
        .ended,
    ]

    @Test(
        arguments: [
            (AccountStage.nobody, [.signedIn(user: "anna"), .signedIn(user: "ben"), nil, nil, nil]),
            (
                .signedIn(user: "anna"),
                [
                    .signedIn(user: "anna"), .signedIn(user: "ben"), .leaving(user: "anna", removesFiles: false),
                    .leaving(user: "anna", removesFiles: true), nil,
                ]
            ),
            (
                .signedOut(user: "anna"),
                [
                    .signedIn(user: "anna"), .signedIn(user: "ben"), .leaving(user: "anna", removesFiles: false),
                    .leaving(user: "anna", removesFiles: true), nil,
                ]
            ),
            (
                .leaving(user: "anna", removesFiles: false),
                [
                    nil, nil, .leaving(user: "anna", removesFiles: false), .leaving(user: "anna", removesFiles: true),
                    .signedOut(user: "anna"),
                ]
            ),
            (
                .leaving(user: "anna", removesFiles: true),
                [
                    nil, nil, .leaving(user: "anna", removesFiles: true), .leaving(user: "anna", removesFiles: true),
                    .nobody,
                ]
            ),
        ] as [(AccountStage, [AccountStage?])]
    )
    func `each stage has one answer to each event`(stage: AccountStage, next: [AccountStage?]) {
        #expect(Self.events.map(stage.after) == next)
    }

    /// The plan, or the code of the refusal, in a word.
    private static func plan(_ facts: SignInPlan.Facts, _ edits: EarlierEdits, _ permits: Bool = false) -> String {
        do throws(TidemarkError) {
            return "\(try SignInPlan(facts, earlierEdits: edits, despiteWaitingChanges: permits))"
        } catch { return error.code.rawValue }
    }

    @Test(
        arguments: [
            (nil, nil, ["goOn", "goOn", "goOn"]), (nil, 0, ["goOn", "goOn", "goOn"]),
            (nil, 2, ["goOn", "goOn", "goOn"]),
            (0, nil, ["adopt", "adopt", "adopt"]), (3, nil, ["adopt", "adopt", "adopt"]),
            (0, 0, ["discard", "discard", "discard"]), (0, 2, ["discard", "discard", "discard"]),
            (3, 0, ["accountHasFile", "replace", "setAside"]), (3, 2, ["accountHasFile", "changesWait", "setAside"]),
        ] as [(Int?, Int?, [String])]
    )
    func `nobody's edits are adopted, set aside or refused, and no file with edits is removed`(
        nobodys: Int?, own: Int?, plans: [String]
    ) {
        let facts = SignInPlan.Facts(nobodysEdits: nobodys, ownEdits: own)
        let choices: [EarlierEdits] = [.refused, .adopted, .setAside]
        #expect(choices.map { Self.plan(facts, $0) } == plans)
    }

    @Test func `another user signs in over waiting edits only if the app says so`() {
        let facts = SignInPlan.Facts(nobodysEdits: nil, ownEdits: 0, formerUsersEdits: 1)
        #expect(Self.plan(facts, .refused) == "changesWait")
        #expect(Self.plan(facts, .refused, true) == "goOn")
    }
}
