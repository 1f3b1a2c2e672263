import ArgumentParser
import TidemarkCore
import TidemarkDashboard

struct DashboardOptions: ParsableArguments {
    @Flag(name: .customLong("no-dashboard"), help: "Do not show the dashboard at /dashboard/.") var hasNoDashboard =
        false

    @Option(
        help: ArgumentHelp(
            "A folder with the dashboard's files, read again for each request, for work on them.", valueName: "folder"))
    var dashboardFolder: String?

    func validate() throws {
        guard !hasNoDashboard || dashboardFolder == nil else {
            throw ValidationError("Give --no-dashboard or --dashboard-folder, not both.")
        }
    }

    func pages() throws(TidemarkError) -> WebPages {
        if let dashboardFolder { return try WebPages(folder: dashboardFolder) }
        return hasNoDashboard ? WebPages.embedded.withoutDashboard : .embedded
    }
}
