/* SQLite's file locks, between the connections of one process. */

#include "handle.h"

#include <stddef.h>

static int take(Handle *handle, int level) {
    Inode *inode = handle->inode;
    bool isPending = inode->pending != NULL && inode->pending != handle;
    switch (level) {
    case SQLITE_LOCK_SHARED:
        if (isPending) return SQLITE_BUSY;
        inode->sharedCount += 1;
        break;
    case SQLITE_LOCK_RESERVED:
        if (inode->reserved != NULL || isPending) return SQLITE_BUSY;
        inode->reserved = handle;
        break;
    default:
        /* From here on nobody comes in; who is in may stay, and then this waits as PENDING. */
        if (isPending || (inode->reserved != NULL && inode->reserved != handle)) {
            return SQLITE_BUSY;
        }
        inode->pending = handle;
        handle->lock = SQLITE_LOCK_PENDING;
        if (inode->sharedCount > 1) return SQLITE_BUSY;
        inode->exclusive = handle;
        break;
    }
    handle->lock = level;
    return SQLITE_OK;
}

int handle_lock(sqlite3_file *file, int level) {
    Handle *handle = (Handle *)file;
    if (handle->lock >= level) return SQLITE_OK;
    int fault = handle_enter(handle, FAULT_CALL_LOCK);
    int code = fault == FAULT_NONE ? take(handle, level) : SQLITE_IOERR_LOCK;
    handle_leave(handle);
    return code;
}

int handle_unlock(sqlite3_file *file, int level) {
    Handle *handle = (Handle *)file;
    volume_enter(handle->volume);
    Inode *inode = handle->inode;
    if (!handle_is_dead(handle) && handle->lock > level) {
        if (inode->reserved == handle) inode->reserved = NULL;
        if (inode->pending == handle) inode->pending = NULL;
        if (inode->exclusive == handle) inode->exclusive = NULL;
        if (level == SQLITE_LOCK_NONE) inode->sharedCount -= 1;
    }
    if (handle->lock > level) handle->lock = level;
    volume_leave(handle->volume);
    return SQLITE_OK;
}

int handle_check_reserved(sqlite3_file *file, int *out) {
    Handle *handle = (Handle *)file;
    int fault = handle_enter(handle, FAULT_CALL_LOCK);
    *out = fault == FAULT_NONE
        && (handle->inode->reserved != NULL || handle->inode->pending != NULL);
    handle_leave(handle);
    return fault == FAULT_NONE ? SQLITE_OK : SQLITE_IOERR_CHECKRESERVEDLOCK;
}
