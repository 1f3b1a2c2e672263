/// A program altered the tables after this node last read them: the node follows them and starts again.
struct TablesAltered: Error {}
