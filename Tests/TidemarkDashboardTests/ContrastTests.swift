import Foundation
import Testing

@testable import TidemarkDashboard

/// Text can be read in both schemes: at least 4.5 to 1, by the formula of WCAG 2.
@Suite struct ContrastTests {
    enum Scheme: String, CaseIterable { case light, dark }

    /// The colours of the style sheet: `--ink: light-dark(#1b1f24, #e6e8ea);`.
    private static let colours: [String: [Scheme: String]] = {
        let style = WebPages.embeddedFiles.first { $0.name == "style.css" }
        let text = String(decoding: style?.content ?? [], as: UTF8.self)
        let matches = text.matches(of: /--([a-z]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)/)
        let pairs = matches.map { match in
            (String(match.output.1), [Scheme.light: String(match.output.2), .dark: String(match.output.3)])
        }
        return Dictionary(uniqueKeysWithValues: pairs)
    }()

    private static func luminance(_ hex: String) throws -> Double {
        let value = try #require(Int(hex, radix: 16))
        let parts = [16, 8, 0].map { shift in
            let part = Double((value >> shift) & 255) / 255
            return part <= 0.03928 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4)
        }
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    }

    private static func contrast(_ name: String, on ground: String, in scheme: Scheme) throws -> Double {
        let text = try luminance(try #require(colours[name]?[scheme]))
        let behind = try luminance(try #require(colours[ground]?[scheme]))
        return (max(text, behind) + 0.05) / (min(text, behind) + 0.05)
    }

    @Test(arguments: Scheme.allCases) func `text stands out from every ground that it stands on`(scheme: Scheme) throws
    {
        for ground in ["page", "card", "soft"] {
            for name in ["ink", "dim", "accent", "good", "warn", "bad"] {
                let contrast = try Self.contrast(name, on: ground, in: scheme)
                #expect(contrast >= 4.5, "\(name) on \(ground), \(scheme): \(contrast)")
            }
        }
        for ground in ["added", "removed"] {
            for name in ["ink", "dim", "accent"] {
                let contrast = try Self.contrast(name, on: ground, in: scheme)
                #expect(contrast >= 4.5, "\(name) on \(ground), \(scheme): \(contrast)")
            }
        }
        #expect(try Self.contrast("card", on: "accent", in: scheme) >= 4.5)
    }
}
