internal import CMallocConfig

/// Makes `free` return large blocks to the system at once.
///
/// By default glibc does so for blocks of 128 KiB and more. But after the first such block is freed, it raises this
/// bound to the block's size, and keeps smaller blocks in a heap per thread. After a few requests of 25 MB on different
/// threads, a server would hold several times that memory. A bound that the program sets does not change.
package enum LargeBlocks {
    /// Blocks of at least this size go back to the system.
    private static let bytesMin: Int32 = 1 << 20

    /// Sets the bound for the whole process.
    package static func giveBack() { tidemark_give_back_blocks(bytesMin) }
}
