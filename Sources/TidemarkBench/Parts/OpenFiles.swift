import Foundation

/// How many files this process may have open.
enum OpenFiles {
    /// Asks the system for as many as it grants, and returns how many that is.
    static func raise() -> Int {
        #if os(Linux)
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let resource = RLIMIT_NOFILE
        #endif
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 256 }
        let has = limit.rlim_cur
        limit.rlim_cur = min(limit.rlim_max, 1 << 20)
        return Int(clamping: setrlimit(resource, &limit) == 0 ? limit.rlim_cur : has)
    }
}
