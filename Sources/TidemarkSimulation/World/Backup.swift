/// A copy of a file, made earlier.
struct Backup {
    let name: String
    /// The device; nil: the server.
    let device: SimulatedDevice?
    /// The recorder's state of the server's file.
    let zone: Recorder.ZoneReading
}
