import Testing

/// Everything with real processes, files and sockets: one test at a time, because each of them is
/// many processes already.
@Suite(.serialized) enum IntegrationTests {}
