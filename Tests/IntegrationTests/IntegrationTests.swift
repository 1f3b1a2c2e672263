import Testing

/// Tests with real processes, files and sockets.
///
/// They run one at a time, because each starts many processes.
@Suite(.serialized) enum IntegrationTests {}
