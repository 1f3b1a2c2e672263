internal import Foundation

package enum OpenFiles {
    /// Raises the limit to `target`, or to the system's hard limit if that is lower, and returns the new limit.
    package static func raise(to target: Int) -> Int {
        #if os(Linux)
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
        let resource = RLIMIT_NOFILE
        #endif
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return target }
        let previous = limit.rlim_cur
        limit.rlim_cur = max(previous, min(limit.rlim_max, rlim_t(target)))
        let isRaised = setrlimit(resource, &limit) == 0
        return Int(clamping: isRaised ? limit.rlim_cur : previous)
    }
}
