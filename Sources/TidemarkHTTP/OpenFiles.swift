internal import Foundation

/// How many files this process may have open.
package enum OpenFiles {
    /// Asks the system for more, up to as many as it grants at all.
    ///
    /// - Returns: How many the process may have open now; what it wants, where the system does not
    ///   say.
    package static func raise(to wanted: Int) -> Int {
        #if os(Linux)
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let resource = RLIMIT_NOFILE
        #endif
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return wanted }
        let has = limit.rlim_cur
        limit.rlim_cur = max(has, min(limit.rlim_max, rlim_t(wanted)))
        let isGranted = setrlimit(resource, &limit) == 0
        return Int(clamping: isGranted ? limit.rlim_cur : has)
    }
}
