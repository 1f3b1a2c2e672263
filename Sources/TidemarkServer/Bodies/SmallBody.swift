internal import Foundation
internal import Hummingbird
internal import TidemarkCore

/// Reads the small JSON bodies of requests about users and zones.
struct SmallBody: Sendable {
    private let bodyReader: BodyReader
    private let memory: InFlightMemory
    private static let bytesMax = 4 << 10

    /// Makes a reader; `durationMax` is the longest time for a body to arrive.
    init(durationMax: Duration, memory: InFlightMemory) {
        bodyReader = BodyReader(bytesMax: Self.bytesMax, durationMax: durationMax)
        self.memory = memory
    }

    /// Reads a body; `form` describes it in the error, `malformedRequest`, about another one.
    func read<Content: Decodable>(
        _ type: Content.Type, from request: Request, _ context: ServerRequestContext, form: String
    ) async throws -> Content {
        let body = try await bodyReader.read(request, on: context.channel, share: memory.share())
        do { return try JSONDecoder().decode(type, from: Data(body)) } catch is DecodingError {
            throw TidemarkError(.malformedRequest, "The body has another form.", fix: "Send \(form).")
        }
    }

    static func answer(_ content: some Encodable, status: HTTPResponse.Status = .ok, to request: Request) async throws
        -> Response
    {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try await JSONAnswer.response(Array(try encoder.encode(content)), status: status, to: request.headers)
    }

    /// Returns an answer in words, which no cache stores.
    static func words(_ text: String, type: String = "text/plain; charset=utf-8") -> Response {
        Response(
            status: .ok, headers: [.contentType: type, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
    }

    /// The answer to a change without content.
    static var done: Response { Response(status: .noContent, headers: [.cacheControl: "no-store"]) }
}
