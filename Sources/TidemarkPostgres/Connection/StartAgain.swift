/// Another program committed an unabsorbed change of a record that a transaction uses: it starts again.
struct Overtaken: Error {}

/// A program altered the tables after this node last read them: the node follows them and starts again.
struct TablesAltered: Error {}
