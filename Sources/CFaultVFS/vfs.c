/* The VFS itself: paths of volumes are served here, all others by the VFS that was there before. */

#include "chance.h"
#include "handle.h"

#include <string.h>

static sqlite3_vfs *system_vfs;

/* What the whole process takes as random and as the time; the system's while not fixed. */
static bool isFixed;
static uint64_t fixedChance;

/* 2025-01-01 12:00 in milliseconds of the Julian day number, which SQLite counts in. */
static const sqlite3_int64 fixedTime = 212602492800000;

static int open_in_volume(FaultVolume *volume, const char *file, Handle *handle, int flags) {
    int fault = volume_fault(volume, FAULT_CALL_OPEN);
    if (fault != FAULT_NONE) return SQLITE_CANTOPEN;
    bool creates = (flags & SQLITE_OPEN_CREATE) != 0;
    Name *name = volume_name(volume, file, creates);
    if (name == NULL) return creates ? SQLITE_NOMEM : SQLITE_CANTOPEN;
    bool isNew = name->live == NULL;
    if (isNew && !creates) return SQLITE_CANTOPEN;
    if (isNew) {
        Inode *inode = inode_create();
        bool isSet = inode != NULL && name_set(name, inode);
        inode_release(inode);
        if (!isSet) return SQLITE_NOMEM;
    }
    const int journals = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
    handle->inode = inode_retain(name->live);
    handle->life = volume->life;
    handle->syncsNames = isNew && (flags & journals) != 0;
    handle->isTemporary = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    return SQLITE_OK;
}

static int open_file(
    sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *outFlags) {
    (void)vfs;
    if (!volume_owns_path(path)) {
        return system_vfs->xOpen(system_vfs, path, file, flags, outFlags);
    }
    Handle *handle = (Handle *)file;
    memset(handle, 0, sizeof(Handle));
    const char *name = NULL;
    FaultVolume *volume = volume_of_path(path, &name);
    if (volume == NULL) return SQLITE_CANTOPEN;
    volume_enter(volume);
    handle->volume = volume;
    int code = open_in_volume(volume, name, handle, flags);
    volume_leave(volume);
    if (code != SQLITE_OK) {
        volume_release(volume);
        return code;
    }
    handle->base.pMethods = &handle_methods;
    if (outFlags != NULL) *outFlags = flags;
    return SQLITE_OK;
}

static int delete_in_volume(FaultVolume *volume, const char *file, bool syncs) {
    int fault = volume_fault(volume, FAULT_CALL_DELETE);
    if (fault != FAULT_NONE) return SQLITE_IOERR_DELETE;
    Name *name = volume_name(volume, file, false);
    if (name == NULL || name->live == NULL) return SQLITE_IOERR_DELETE_NOENT;
    if (!name_set(name, NULL)) return SQLITE_NOMEM;
    if (syncs && !volume->ignoresSyncs) volume_sync_names(volume);
    return SQLITE_OK;
}

static int delete_file(sqlite3_vfs *vfs, const char *path, int syncs) {
    (void)vfs;
    if (!volume_owns_path(path)) return system_vfs->xDelete(system_vfs, path, syncs);
    const char *name = NULL;
    FaultVolume *volume = volume_of_path(path, &name);
    if (volume == NULL) return SQLITE_IOERR_DELETE;
    volume_enter(volume);
    int code = delete_in_volume(volume, name, syncs != 0);
    volume_leave(volume);
    volume_release(volume);
    return code;
}

static int look_for_file(sqlite3_vfs *vfs, const char *path, int flags, int *out) {
    (void)vfs;
    if (!volume_owns_path(path)) return system_vfs->xAccess(system_vfs, path, flags, out);
    const char *file = NULL;
    FaultVolume *volume = volume_of_path(path, &file);
    *out = 0;
    if (volume == NULL) return SQLITE_OK;
    volume_enter(volume);
    int fault = volume_fault(volume, FAULT_CALL_LOOK);
    Name *name = volume_name(volume, file, false);
    bool isThere = name != NULL && name->live != NULL;
    /* As SQLite's own VFS does: an empty file counts as none where its existence is asked for. */
    if (isThere && flags == SQLITE_ACCESS_EXISTS) isThere = name->live->seen.count > 0;
    *out = fault == FAULT_NONE && isThere;
    volume_leave(volume);
    volume_release(volume);
    return fault == FAULT_NONE ? SQLITE_OK : SQLITE_IOERR_ACCESS;
}

static int full_path(sqlite3_vfs *vfs, const char *path, int room, char *out) {
    (void)vfs;
    if (!volume_owns_path(path)) return system_vfs->xFullPathname(system_vfs, path, room, out);
    if (strlen(path) >= (size_t)room) return SQLITE_CANTOPEN;
    strcpy(out, path);
    return SQLITE_OK;
}

static void *open_library(sqlite3_vfs *vfs, const char *path) {
    (void)vfs;
    return system_vfs->xDlOpen(system_vfs, path);
}

static void library_error(sqlite3_vfs *vfs, int room, char *out) {
    (void)vfs;
    system_vfs->xDlError(system_vfs, room, out);
}

static void (*library_symbol(sqlite3_vfs *vfs, void *library, const char *symbol))(void) {
    (void)vfs;
    return system_vfs->xDlSym(system_vfs, library, symbol);
}

static void close_library(sqlite3_vfs *vfs, void *library) {
    (void)vfs;
    system_vfs->xDlClose(system_vfs, library);
}

static int randomness(sqlite3_vfs *vfs, int count, char *out) {
    (void)vfs;
    if (!isFixed) return system_vfs->xRandomness(system_vfs, count, out);
    for (int i = 0; i < count; i++) out[i] = (char)chance_next(&fixedChance);
    return count;
}

static int pause_thread(sqlite3_vfs *vfs, int microseconds) {
    (void)vfs;
    return system_vfs->xSleep(system_vfs, microseconds);
}

static int current_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *out) {
    (void)vfs;
    if (!isFixed && system_vfs->iVersion >= 2) {
        return system_vfs->xCurrentTimeInt64(system_vfs, out);
    }
    *out = fixedTime;
    return SQLITE_OK;
}

static int current_time(sqlite3_vfs *vfs, double *out) {
    sqlite3_int64 milliseconds = 0;
    int code = current_time_ms(vfs, &milliseconds);
    *out = (double)milliseconds / 86400000.0;
    return code;
}

static int last_error(sqlite3_vfs *vfs, int room, char *out) {
    (void)vfs;
    return system_vfs->xGetLastError(system_vfs, room, out);
}

static sqlite3_vfs fault_vfs = {
    .iVersion = 2,
    .mxPathname = 1024,
    .zName = "tidemark-fault",
    .xOpen = open_file,
    .xDelete = delete_file,
    .xAccess = look_for_file,
    .xFullPathname = full_path,
    .xDlOpen = open_library,
    .xDlError = library_error,
    .xDlSym = library_symbol,
    .xDlClose = close_library,
    .xRandomness = randomness,
    .xSleep = pause_thread,
    .xCurrentTime = current_time,
    .xCurrentTimeInt64 = current_time_ms,
    .xGetLastError = last_error,
};

int fault_vfs_register(void) {
    int code = sqlite3_initialize();
    if (code != SQLITE_OK) return code;
    sqlite3_mutex_enter(volume_list_mutex());
    if (system_vfs == NULL) {
        system_vfs = sqlite3_vfs_find(NULL);
        int size = (int)sizeof(Handle);
        fault_vfs.szOsFile = system_vfs->szOsFile > size ? system_vfs->szOsFile : size;
        if (system_vfs->mxPathname > fault_vfs.mxPathname) {
            fault_vfs.mxPathname = system_vfs->mxPathname;
        }
        code = sqlite3_vfs_register(&fault_vfs, 1);
    }
    sqlite3_mutex_leave(volume_list_mutex());
    return code;
}

int fault_vfs_fix(uint64_t seed) {
    int code = fault_vfs_register();
    fixedChance = seed;
    isFixed = true;
    /* SQLite's generator takes its seed from the VFS at the next use. */
    sqlite3_randomness(0, NULL);
    return code;
}
