import Testing

/// The entry point of the test program on Linux.
///
/// All tests are of Swift Testing. Without this file the package manager would look for tests of
/// XCTest as well, in the index that editors use, and writing that index takes a quarter of the
/// processor time of a build.
@main struct TestProgram {
    static func main() async {
        // `swift test` starts the program once for each library.
        let library = CommandLine.arguments.drop { $0 != "--testing-library" }.dropFirst().first
        guard library == "swift-testing" else { return }
        await Testing.__swiftPMEntryPoint() as Never
    }
}
