#ifndef TIDEMARK_CFAULTVFS_H
#define TIDEMARK_CFAULTVFS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * `tidemark-fault`: an SQLite VFS whose files lie in memory, on named volumes that can fail.
 *
 * A file is on a volume when its path is `/tidemark-fault/VOLUME/FILE`. The VFS is the default one
 * once registered, and hands every other path to the one that was the default before; so whatever
 * opens a path can be pointed at a volume.
 *
 * What a program has written and not synced is kept apart from what it has synced. A crash of the
 * volume decides, sector by sector, what became of the former.
 *
 * Temporary files without a name are the system's. Volumes do not disturb each other and may be used
 * by several threads.
 */

/* Registers the VFS as the default one. Safe to call again; returns an SQLite result code. */
int fault_vfs_register(void);

/*
 * Fixes the random numbers and the clock that SQLite takes from the VFS, for the whole process:
 * equal seeds give equal salts, ROWIDs and times from here on. Returns an SQLite result code.
 */
int fault_vfs_fix(uint64_t seed);

/* A disk in memory. */
typedef struct FaultVolume FaultVolume;

/* The calls of SQLite on a volume, as bits. */
enum {
    FAULT_CALL_OPEN = 1 << 0,
    FAULT_CALL_READ = 1 << 1,
    FAULT_CALL_WRITE = 1 << 2,
    FAULT_CALL_TRUNCATE = 1 << 3,
    FAULT_CALL_SYNC = 1 << 4,
    FAULT_CALL_DELETE = 1 << 5,
    FAULT_CALL_LOCK = 1 << 6,
    FAULT_CALL_SHARE = 1 << 7,
    FAULT_CALL_LOOK = 1 << 8
};

/* How a call fails. */
enum {
    FAULT_NONE = 0,
    /* The medium reports an error (EIO). */
    FAULT_IO = 1,
    /* The disk is full (ENOSPC). */
    FAULT_FULL = 2,
    /* The power is gone: this call and all after it fail, until the volume has crashed. */
    FAULT_POWER = 3
};

/* Makes a volume. NULL when there is no memory, or one of that name already. */
FaultVolume *fault_volume_create(const char *name);

/* Gives a volume up; its memory goes with the last open file. */
void fault_volume_destroy(FaultVolume *volume);

/*
 * Lets calls of the given kinds fail: the n-th from now on (1 is the next one), and all later ones
 * of these kinds as well if `onwards`. Replaces an earlier plan; 0 lets none fail.
 */
void fault_volume_fail(FaultVolume *volume, unsigned calls, uint64_t nth, bool onwards, int fault);

/* How many calls of the plan's kinds there have been since it was set. */
uint64_t fault_volume_calls(FaultVolume *volume);

/* How many calls have failed by the plan since it was set. */
uint64_t fault_volume_failures(FaultVolume *volume);

/* The bytes that all files together may have; a write beyond fails as on a full disk. */
void fault_volume_set_capacity(FaultVolume *volume, int64_t bytes);

/* The bytes that all files have together. */
int64_t fault_volume_used(FaultVolume *volume);

/* Lets syncs succeed without an effect, as a lying disk or a forgotten sync would. */
void fault_volume_ignore_syncs(FaultVolume *volume, bool ignore);

/*
 * The power goes and comes back. Open files are dead: every call on them fails. Each sector that was
 * written and not synced is kept, lost, torn or garbled; each truncation, creation and removal that
 * was not synced happened or did not. The plan is over.
 */
void fault_volume_crash(FaultVolume *volume, uint64_t seed);

/* The bytes of a file as programs see it; -1 when there is none. */
int64_t fault_volume_size(FaultVolume *volume, const char *file);

/* Copies bytes of a file out; returns how many. */
int64_t fault_volume_read(
    FaultVolume *volume, const char *file, int64_t offset, void *bytes, int64_t count);

/* Replaces a file, durably; a NULL removes it. False when there is no memory. */
bool fault_volume_replace(
    FaultVolume *volume, const char *file, const void *bytes, int64_t count);

/* The name of the index-th file, NULL behind the last. Valid until the volume changes. */
const char *fault_volume_file(FaultVolume *volume, int index);

#endif
