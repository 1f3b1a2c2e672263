#include "handle.h"

#include <string.h>

bool handle_is_dead(const Handle *handle) { return handle->life != handle->volume->life; }

int handle_enter(Handle *handle, unsigned call) {
    volume_enter(handle->volume);
    return handle_is_dead(handle) ? FAULT_POWER : volume_fault(handle->volume, call);
}

void handle_leave(Handle *handle) { volume_leave(handle->volume); }

static int close_handle(sqlite3_file *file) {
    Handle *handle = (Handle *)file;
    handle_share_unmap(file, 0);
    handle_unlock(file, SQLITE_LOCK_NONE);
    volume_enter(handle->volume);
    if (handle->isTemporary && !handle_is_dead(handle)) {
        for (Name *name = handle->volume->names; name != NULL; name = name->next) {
            if (name->live == handle->inode) (void)name_set(name, NULL);
        }
    }
    inode_release(handle->inode);
    volume_leave(handle->volume);
    volume_release(handle->volume);
    return SQLITE_OK;
}

static int read_bytes(sqlite3_file *file, void *out, int count, sqlite3_int64 offset) {
    Handle *handle = (Handle *)file;
    int fault = handle_enter(handle, FAULT_CALL_READ);
    int code = SQLITE_IOERR_READ;
    if (fault == FAULT_NONE) {
        const Bytes *seen = &handle->inode->seen;
        int64_t there = seen->count - offset;
        if (there > count) there = count;
        if (there > 0) memcpy(out, seen->data + offset, (size_t)there);
        if (there < 0) there = 0;
        code = there == count ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
        memset((char *)out + there, 0, (size_t)(count - there));
    }
    handle_leave(handle);
    return code;
}

static int code_of_write(Handle *handle, const void *bytes, int count, int64_t offset, int fault) {
    if (fault == FAULT_FULL) return SQLITE_FULL;
    if (fault != FAULT_NONE) return SQLITE_IOERR_WRITE;
    int64_t growth = offset + count - handle->inode->seen.count;
    FaultVolume *volume = handle->volume;
    if (volume->capacity != INT64_MAX && growth > 0
        && volume_used(volume) + growth > volume->capacity) {
        return SQLITE_FULL;
    }
    return inode_write(handle->inode, offset, bytes, count) ? SQLITE_OK : SQLITE_IOERR_NOMEM;
}

static int write_bytes(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    Handle *handle = (Handle *)file;
    int fault = handle_enter(handle, FAULT_CALL_WRITE);
    int code = code_of_write(handle, bytes, count, offset, fault);
    handle_leave(handle);
    return code;
}

static int truncate_file(sqlite3_file *file, sqlite3_int64 count) {
    Handle *handle = (Handle *)file;
    int fault = handle_enter(handle, FAULT_CALL_TRUNCATE);
    int code = SQLITE_IOERR_TRUNCATE;
    if (fault == FAULT_NONE) {
        code = inode_truncate(handle->inode, count) ? SQLITE_OK : SQLITE_IOERR_NOMEM;
    }
    handle_leave(handle);
    return code;
}

static int sync_file(sqlite3_file *file, int flags) {
    (void)flags;
    Handle *handle = (Handle *)file;
    int fault = handle_enter(handle, FAULT_CALL_SYNC);
    FaultVolume *volume = handle->volume;
    int code = SQLITE_IOERR_FSYNC;
    if (fault == FAULT_NONE) {
        code = volume->ignoresSyncs || inode_sync(handle->inode) ? SQLITE_OK : SQLITE_IOERR_NOMEM;
        if (handle->syncsNames && !volume->ignoresSyncs) {
            volume_sync_names(volume);
            handle->syncsNames = false;
        }
    } else if (fault != FAULT_POWER) {
        inode_lose_sync(handle->inode, &volume->chance);
    }
    handle_leave(handle);
    return code;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *out) {
    Handle *handle = (Handle *)file;
    int fault = handle_enter(handle, FAULT_CALL_LOOK);
    *out = handle->inode->seen.count;
    handle_leave(handle);
    return fault == FAULT_NONE ? SQLITE_OK : SQLITE_IOERR_FSTAT;
}

static int control(sqlite3_file *file, int operation, void *argument) {
    Handle *handle = (Handle *)file;
    switch (operation) {
    case SQLITE_FCNTL_LOCKSTATE: *(int *)argument = handle->lock; return SQLITE_OK;
    case SQLITE_FCNTL_VFSNAME:
        *(char **)argument = sqlite3_mprintf("tidemark-fault");
        return SQLITE_OK;
    default: return SQLITE_NOTFOUND;
    }
}

/* Locks, sectors and guarantees are those of SQLite's own VFS for POSIX. */
static int sector_size(sqlite3_file *file) {
    (void)file;
    return 4096;
}

static int characteristics(sqlite3_file *file) {
    (void)file;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

const sqlite3_io_methods handle_methods = {
    .iVersion = 2,
    .xClose = close_handle,
    .xRead = read_bytes,
    .xWrite = write_bytes,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = file_size,
    .xLock = handle_lock,
    .xUnlock = handle_unlock,
    .xCheckReservedLock = handle_check_reserved,
    .xFileControl = control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
    .xShmMap = handle_share_map,
    .xShmLock = handle_share_lock,
    .xShmBarrier = handle_share_barrier,
    .xShmUnmap = handle_share_unmap,
};
