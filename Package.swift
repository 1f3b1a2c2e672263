// swift-tools-version: 6.2
import PackageDescription

// An app takes the product `Tidemark` and compiles neither the server nor its libraries. A program that
// embeds the server takes `TidemarkServer`, and `TidemarkPostgres` to keep the zones in PostgreSQL.
// A target depends only on targets above it; no client target imports a server target.
let package = Package(
    name: "tidemark",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "Tidemark", targets: ["Tidemark"]),
        .library(name: "TidemarkServer", targets: ["TidemarkServer", "TidemarkEngine", "TidemarkEmbedded"]),
        .library(name: "TidemarkPostgres", targets: ["TidemarkPostgres"]),
        .library(name: "TidemarkTestSupport", targets: ["TidemarkTestSupport"]),
        .executable(name: "tidemark", targets: ["TidemarkCLI"]),
        .executable(name: "tidemark-dev", targets: ["TidemarkDev"]),
    ],
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.0"),
        .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-crypto", "4.1.0"..<"5.0.0"),
        .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        // What both sides share.
        .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
        .target(name: "TidemarkGzip", dependencies: ["CZlib"]),
        .target(name: "TidemarkCore", dependencies: [.product(name: "Crypto", package: "swift-crypto")]),
        .target(
            name: "TidemarkSQL",
            dependencies: [
                "TidemarkCore",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "Crypto", package: "swift-crypto"),
            ]
        ),

        // The device.
        .target(
            name: "Tidemark",
            dependencies: [
                "TidemarkCore", "TidemarkSQL", "TidemarkGzip",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ]
        ),

        // The server.
        .target(
            name: "TidemarkEngine",
            dependencies: [
                "TidemarkCore", "TidemarkGzip", .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Crypto", package: "swift-crypto"),
            ],
            resources: [.embedInCode("OpenAPI/openapi.json")]
        ),
        .target(name: "CMallocConfig"),
        .target(
            name: "CSQLiteConfig",
            dependencies: [.product(name: "GRDBSQLite", package: "GRDB.swift")]
        ),
        .target(
            name: "TidemarkEmbedded",
            dependencies: [
                "CSQLiteConfig", "TidemarkCore", "TidemarkSQL", "TidemarkGzip", "TidemarkEngine",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .systemLibrary(name: "CLibPQ", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .target(
            name: "TidemarkPostgres",
            dependencies: [
                "CLibPQ", "TidemarkCore", "TidemarkGzip", "TidemarkSQL", "TidemarkEngine",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ]
        ),
        .systemLibrary(
            name: "CHiredis",
            pkgConfig: "hiredis",
            providers: [.apt(["libhiredis-dev"])]
        ),
        .target(
            name: "TidemarkRedis",
            dependencies: [
                "CHiredis", "TidemarkCore", "TidemarkGzip", "TidemarkEngine",
                .product(name: "Logging", package: "swift-log"),
            ]
        ),
        // The tokens of an app's own identity provider.
        .target(
            name: "TidemarkIdentity",
            dependencies: [
                "TidemarkCore", "TidemarkEngine",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]
        ),
        // The pages that the server shows in a browser; the build compiles the files into the program.
        .target(
            name: "TidemarkDashboard",
            dependencies: ["TidemarkCore"],
            resources: [.embedInCode("Pages")]
        ),
        .target(
            name: "TidemarkServer",
            dependencies: [
                "TidemarkCore", "TidemarkDashboard", "TidemarkGzip", "TidemarkEngine",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HummingbirdTLS", package: "hummingbird"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ]
        ),
        // What happened in a run, and whether it may have; knows nothing of the code it judges.
        .target(name: "TidemarkHistory"),
        // A disk in memory whose calls fail and whose power goes, for tests and simulations.
        .target(
            name: "CFaultVFS",
            dependencies: [.product(name: "GRDBSQLite", package: "GRDB.swift")]
        ),
        .target(
            name: "TidemarkTestSupport",
            dependencies: [
                "CFaultVFS", "Tidemark", "TidemarkCore", "TidemarkGzip", "TidemarkSQL",
                "TidemarkEmbedded", "TidemarkServer", "TidemarkEngine",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]
        ),
        .target(
            name: "TidemarkSimulation",
            dependencies: [
                "Tidemark", "TidemarkCore", "TidemarkHistory", "TidemarkSQL",
                "TidemarkEmbedded", "TidemarkEngine", "TidemarkGzip", "TidemarkServer",
                "TidemarkTestSupport",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]
        ),
        .target(
            name: "TidemarkBench",
            dependencies: [
                "Tidemark", "TidemarkCore", "TidemarkGzip", "TidemarkServer",
                "TidemarkPostgres", "TidemarkSQL", "TidemarkEmbedded",
                "TidemarkEngine", "TidemarkIdentity", "TidemarkTestSupport",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]
        ),
        // What both programs show on a terminal.
        .target(
            name: "TidemarkTerminal",
            dependencies: [
                "CMallocConfig", "TidemarkCore", "TidemarkSQL",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        // Not named `tidemark`: file systems that ignore case would mix it up with `Tidemark`.
        .executableTarget(
            name: "TidemarkCLI",
            dependencies: [
                "Tidemark", "TidemarkCore", "TidemarkDashboard", "TidemarkSQL", "TidemarkEmbedded",
                "TidemarkPostgres", "TidemarkRedis", "TidemarkServer", "TidemarkEngine",
                "TidemarkIdentity", "TidemarkTerminal",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ]
        ),
        // The tools of those who work on the project: no user's build compiles them.
        .executableTarget(
            name: "TidemarkDev",
            dependencies: [
                "TidemarkBench", "TidemarkCore", "TidemarkSimulation", "TidemarkTerminal",
                "TidemarkTestSupport",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),

        // Tests: one target a source target, then the whole, then the style.
        .testTarget(name: "TidemarkGzipTests", dependencies: ["TidemarkGzip"]),
        .testTarget(name: "TidemarkCoreTests", dependencies: ["TidemarkCore"]),
        .testTarget(name: "TidemarkHistoryTests", dependencies: ["TidemarkHistory"]),
        .testTarget(
            name: "TidemarkSQLTests",
            dependencies: [
                "TidemarkCore", "TidemarkSQL", "TidemarkTestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .testTarget(
            name: "TidemarkTests",
            dependencies: [
                "Tidemark", "TidemarkCore", "TidemarkSQL", "TidemarkEmbedded",
                "TidemarkTestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
            ]
        ),
        // The conformance suite of the stores: one body, run on each.
        .target(
            name: "StoreTestSupport",
            dependencies: [
                "TidemarkCore", "TidemarkEngine", "TidemarkEmbedded", "TidemarkPostgres",
                "TidemarkSQL", "TidemarkTestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
            ],
            path: "Tests/StoreTestSupport"
        ),
        .testTarget(
            name: "TidemarkEngineTests",
            dependencies: ["TidemarkCore", "TidemarkEngine", "TidemarkSQL"]
        ),
        .testTarget(
            name: "StoreTests",
            dependencies: [
                "StoreTestSupport", "Tidemark", "TidemarkCore", "TidemarkEngine",
                "TidemarkSQL", "TidemarkServer", "TidemarkSimulation", "TidemarkTestSupport",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
            ]
        ),
        .testTarget(
            name: "TidemarkEmbeddedTests",
            dependencies: [
                "StoreTestSupport",
                "TidemarkCore", "TidemarkGzip", "TidemarkEngine", "TidemarkEmbedded", "TidemarkSQL",
                "TidemarkTestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .testTarget(
            name: "TidemarkPostgresTests",
            dependencies: [
                "StoreTestSupport", "Tidemark", "TidemarkCore", "TidemarkPostgres",
                "TidemarkRedis", "TidemarkSQL", "TidemarkEngine", "TidemarkSimulation",
                "TidemarkTestSupport",
                .product(name: "Logging", package: "swift-log"),
            ]
        ),
        .testTarget(
            name: "TidemarkServerTests",
            dependencies: [
                "Tidemark", "TidemarkCore", "TidemarkDashboard", "TidemarkGzip", "TidemarkServer", "TidemarkEngine",
                "TidemarkSQL", "TidemarkEmbedded", "TidemarkTestSupport",
                .product(name: "AsyncHTTPClient", package: "async-http-client"),
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOEmbedded", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]
        ),
        .testTarget(
            name: "TidemarkIdentityTests",
            dependencies: [
                "TidemarkCore", "TidemarkEmbedded", "TidemarkEngine", "TidemarkIdentity",
                "TidemarkTestSupport",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]
        ),
        .testTarget(name: "TidemarkDashboardTests", dependencies: ["TidemarkCore", "TidemarkDashboard"]),
        .testTarget(name: "TidemarkTerminalTests", dependencies: ["TidemarkCore", "TidemarkTerminal"]),
        .testTarget(
            name: "SimulationTests",
            dependencies: [
                "StoreTestSupport", "TidemarkCore", "TidemarkEngine", "TidemarkSimulation", "TidemarkTestSupport",
            ]
        ),
        .testTarget(
            name: "StorageTests",
            dependencies: [
                "Tidemark", "TidemarkCore", "TidemarkEngine", "TidemarkSQL",
                "TidemarkEmbedded", "TidemarkTestSupport",
                .product(name: "GRDB", package: "GRDB.swift"),
            ]
        ),
        .testTarget(
            name: "IntegrationTests",
            dependencies: [
                "Tidemark", "TidemarkCLI", "TidemarkCore", "TidemarkDev", "TidemarkGzip",
                "TidemarkTestSupport", .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ]
        ),
        .testTarget(name: "TidyTests"),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
    var settings: [SwiftSetting] = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ]
    if target.type != .test {
        settings += [
            .enableUpcomingFeature("InternalImportsByDefault"),
            .enableUpcomingFeature("MemberImportVisibility"),
        ]
    }
    target.swiftSettings = settings
}
