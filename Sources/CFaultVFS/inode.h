#ifndef TIDEMARK_FAULT_INODE_H
#define TIDEMARK_FAULT_INODE_H

#include "bytes.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Handle Handle;
typedef struct Shared Shared;

/* Something done to a file's content and not synced: a write, or a truncation without bytes. */
typedef struct {
    unsigned char *bytes;
    int64_t offset;
    int64_t count;
} Change;

/*
 * A file without its name: what programs see, what is surely on the disk, and the changes that lie
 * between the two. `users` counts the names and handles that refer to it.
 */
typedef struct {
    int users;
    Bytes seen;
    Bytes synced;
    Change *changes;
    int changeCount;
    int changeRoom;

    /* The locks of SQLite's five levels: how many hold SHARED, and who holds more. */
    int sharedCount;
    Handle *reserved;
    Handle *pending;
    Handle *exclusive;
    /* The memory that connections in WAL mode share; NULL while there are none. */
    Shared *shared;
} Inode;

/* How a crash treats what was not synced: each part's chance in 256. */
typedef struct {
    uint64_t kept;
    uint64_t torn;
    uint64_t garbled;
} Fates;

Inode *inode_create(void);
Inode *inode_retain(Inode *inode);
void inode_release(Inode *inode);

/* Changes what programs see, and notes it as not synced. False when there is no memory. */
bool inode_write(Inode *inode, int64_t offset, const void *bytes, int64_t count);
bool inode_truncate(Inode *inode, int64_t count);

/* All that was changed is on the disk now. False when there is no memory. */
bool inode_sync(Inode *inode);

/*
 * A sync that failed: each change reached the disk or did not, and no later sync makes up for it,
 * because the system takes the pages for clean.
 */
void inode_lose_sync(Inode *inode, uint64_t *chance);

/* The power went: what programs see is what the disk has. */
void inode_crash(Inode *inode, Fates fates, uint64_t *chance);

#endif
