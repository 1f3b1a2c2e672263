/* The memory that connections in WAL mode share, and its locks. Gone with the last connection. */

#include "handle.h"

#include <stdlib.h>

struct Shared {
    int users;
    int regionCount;
    void **regions;
    int sharedCount[SQLITE_SHM_NLOCK];
    Handle *exclusive[SQLITE_SHM_NLOCK];
};

static void shared_release(Shared *shared) {
    shared->users -= 1;
    if (shared->users > 0) return;
    for (int i = 0; i < shared->regionCount; i++) free(shared->regions[i]);
    free(shared->regions);
    free(shared);
}

static int attach(Handle *handle) {
    if (handle->shared != NULL) return SQLITE_OK;
    if (handle->inode->shared == NULL) {
        handle->inode->shared = calloc(1, sizeof(Shared));
        if (handle->inode->shared == NULL) return SQLITE_IOERR_NOMEM;
    }
    handle->shared = handle->inode->shared;
    handle->shared->users += 1;
    return SQLITE_OK;
}

static int extend(Shared *shared, int region, int size) {
    void **regions = realloc(shared->regions, (size_t)(region + 1) * sizeof(void *));
    if (regions == NULL) return SQLITE_IOERR_NOMEM;
    shared->regions = regions;
    while (shared->regionCount <= region) {
        void *memory = calloc(1, (size_t)size);
        if (memory == NULL) return SQLITE_IOERR_NOMEM;
        regions[shared->regionCount++] = memory;
    }
    return SQLITE_OK;
}

int handle_share_map(sqlite3_file *file, int region, int size, int extends, void volatile **out) {
    Handle *handle = (Handle *)file;
    *out = NULL;
    int fault = handle_enter(handle, FAULT_CALL_SHARE);
    int code = fault == FAULT_FULL ? SQLITE_IOERR_SHMSIZE : SQLITE_IOERR_SHMMAP;
    if (fault == FAULT_NONE) code = attach(handle);
    if (code == SQLITE_OK && extends && region >= handle->shared->regionCount) {
        code = extend(handle->shared, region, size);
    }
    if (code == SQLITE_OK && region < handle->shared->regionCount) {
        *out = handle->shared->regions[region];
    }
    handle_leave(handle);
    return code;
}

static int lock_exclusive(Handle *handle, int first, int end) {
    Shared *shared = handle->shared;
    for (int slot = first; slot < end; slot++) {
        bool isMine = (handle->sharedSlots >> slot & 1) != 0;
        Handle *holder = shared->exclusive[slot];
        if (shared->sharedCount[slot] > (isMine ? 1 : 0)) return SQLITE_BUSY;
        if (holder != NULL && holder != handle) return SQLITE_BUSY;
    }
    for (int slot = first; slot < end; slot++) {
        shared->exclusive[slot] = handle;
        handle->exclusiveSlots |= 1u << slot;
    }
    return SQLITE_OK;
}

static int lock_shared(Handle *handle, int slot) {
    if ((handle->sharedSlots >> slot & 1) != 0) return SQLITE_OK;
    Handle *holder = handle->shared->exclusive[slot];
    if (holder != NULL && holder != handle) return SQLITE_BUSY;
    handle->shared->sharedCount[slot] += 1;
    handle->sharedSlots |= 1u << slot;
    return SQLITE_OK;
}

static void unlock(Handle *handle, int first, int end) {
    for (int slot = first; slot < end; slot++) {
        if ((handle->sharedSlots >> slot & 1) != 0) handle->shared->sharedCount[slot] -= 1;
        if ((handle->exclusiveSlots >> slot & 1) != 0) handle->shared->exclusive[slot] = NULL;
        handle->sharedSlots &= ~(1u << slot);
        handle->exclusiveSlots &= ~(1u << slot);
    }
}

int handle_share_lock(sqlite3_file *file, int first, int count, int flags) {
    Handle *handle = (Handle *)file;
    if ((flags & SQLITE_SHM_UNLOCK) != 0) {
        volume_enter(handle->volume);
        if (handle->shared != NULL) unlock(handle, first, first + count);
        volume_leave(handle->volume);
        return SQLITE_OK;
    }
    int fault = handle_enter(handle, FAULT_CALL_SHARE);
    int code = SQLITE_IOERR_SHMLOCK;
    if (fault == FAULT_NONE && handle->shared != NULL) {
        code = (flags & SQLITE_SHM_EXCLUSIVE) != 0
            ? lock_exclusive(handle, first, first + count)
            : lock_shared(handle, first);
    }
    handle_leave(handle);
    return code;
}

void handle_share_barrier(sqlite3_file *file) {
    Handle *handle = (Handle *)file;
    volume_enter(handle->volume);
    volume_leave(handle->volume);
}

int handle_share_unmap(sqlite3_file *file, int removes) {
    (void)removes;
    Handle *handle = (Handle *)file;
    volume_enter(handle->volume);
    Shared *shared = handle->shared;
    if (shared != NULL) {
        unlock(handle, 0, SQLITE_SHM_NLOCK);
        if (shared->users == 1 && handle->inode->shared == shared) handle->inode->shared = NULL;
        shared_release(shared);
        handle->shared = NULL;
    }
    volume_leave(handle->volume);
    return SQLITE_OK;
}
