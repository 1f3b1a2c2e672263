internal import HTTPTypes
internal import Hummingbird
internal import TidemarkCore
internal import TidemarkEngine

/// `POST /batch`: many writes as one change set, or as one each.
struct BatchRoute: Sendable {
    let service: any SyncService
    let bodyReader: BodyReader
    let memory: InFlightMemory

    /// Makes a route whose bodies are bounded by those of other requests as well.
    init(service: any SyncService, bodyReader: BodyReader, memory: InFlightMemory) {
        self.service = service
        self.bodyReader = BodyReader(
            bytesMax: min(bodyReader.bytesMax, WriteBatch.bytesMax), durationMax: bodyReader.durationMax,
            tooLargeFix: WriteBatch.tooLarge.fix)
        self.memory = memory
    }

    @Sendable func answer(_ request: Request, _ context: ServerRequestContext, access: ZoneAccess) async throws
        -> Response
    {
        let headers = try await WriteHeaders.read(request, of: .post)
        let share = memory.share()
        let batch = try WriteBatch(try await bodyReader.read(request, on: context.channel, share: share))
        let id = headers.id ?? WriteRoute.newID()
        let entries =
            batch.isAtomic
            ? try await service.write(headers.writes(batch.requests.map { try $0.get() }, id: id), access).map(\.json)
            : try await entries(of: batch, headers, id: id, access)
        var response = try await JSONAnswer.response(
            Array(#"{"responses":\#(JSONText.array(entries))}"#.utf8), to: request.headers, share: share)
        response.headers[.preferenceApplied] = headers.preferences.applied
        return response
    }

    /// Offers each entry as a change set of its own; the ids follow from the batch's, so a repetition has no effect.
    private func entries(of batch: WriteBatch, _ headers: WriteHeaders, id: String, _ access: ZoneAccess) async throws
        -> [String]
    {
        var entries: [String] = []
        for (index, request) in batch.requests.enumerated() {
            do {
                let id = ClientWrites.id(ofEntry: index, in: id)
                entries += try await service.write(headers.writes([try request.get()], id: id), access).map(\.json)
            } catch {
                guard var problem = Problem(refusal: error, index: index) else { throw error }
                problem.index = index
                let status = problem.error.code.recordStatus.code
                entries.append(#"{"status":\#(status),"problem":\#(problem.json(status: status))}"#)
            }
        }
        return entries
    }
}
