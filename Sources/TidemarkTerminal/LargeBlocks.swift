internal import CMallocConfig

/// What a large text has taken goes back to the system as soon as nobody needs it.
///
/// glibc does so with blocks of 128 KiB and more, but only until the first of them is freed: from
/// then on it keeps what is not larger than that one, in a heap a thread, in case more of the kind
/// comes. In a server a few requests of 25 MB, each on another thread, leave several times that
/// behind. A bound that is set once stays.
package enum LargeBlocks {
    /// From so many bytes on a block is the system's.
    private static let bytesMin: Int32 = 1 << 20

    /// Sets the bound, for the whole process.
    package static func giveBack() { tidemark_give_back_blocks(bytesMin) }
}
