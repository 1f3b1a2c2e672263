import TidemarkCore
import Testing

@testable import Tidemark

/// The table of a sign-in's plan, each pair once.
@Suite struct SignInPlanTests {
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
