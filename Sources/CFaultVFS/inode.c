#include "inode.h"

#include "chance.h"

#include <stdlib.h>
#include <string.h>

/* What a disk writes or loses as one. Only what was written can be damaged, not its neighbours. */
enum { sectorBytes = 512 };

Inode *inode_create(void) {
    Inode *inode = calloc(1, sizeof(Inode));
    if (inode != NULL) inode->users = 1;
    return inode;
}

Inode *inode_retain(Inode *inode) {
    if (inode != NULL) inode->users += 1;
    return inode;
}

static void forget_changes(Inode *inode) {
    for (int i = 0; i < inode->changeCount; i++) free(inode->changes[i].bytes);
    inode->changeCount = 0;
}

void inode_release(Inode *inode) {
    if (inode == NULL) return;
    inode->users -= 1;
    if (inode->users > 0) return;
    forget_changes(inode);
    free(inode->changes);
    bytes_free(&inode->seen);
    bytes_free(&inode->synced);
    free(inode);
}

/* Takes over `bytes`. */
static bool note(Inode *inode, Change change) {
    if (inode->changeCount == inode->changeRoom) {
        int room = inode->changeRoom > 0 ? inode->changeRoom * 2 : 16;
        Change *changes = realloc(inode->changes, (size_t)room * sizeof(Change));
        if (changes == NULL) {
            free(change.bytes);
            return false;
        }
        inode->changes = changes;
        inode->changeRoom = room;
    }
    inode->changes[inode->changeCount++] = change;
    return true;
}

bool inode_write(Inode *inode, int64_t offset, const void *bytes, int64_t count) {
    if (count == 0) return true;
    unsigned char *copy = malloc((size_t)count);
    if (copy == NULL) return false;
    memcpy(copy, bytes, (size_t)count);
    return note(inode, (Change){copy, offset, count})
        && bytes_write(&inode->seen, offset, bytes, count);
}

bool inode_truncate(Inode *inode, int64_t count) {
    if (count == inode->seen.count) return true;
    return note(inode, (Change){NULL, 0, count}) && bytes_resize(&inode->seen, count);
}

static bool carry_out(Bytes *bytes, const Change *change) {
    if (change->bytes == NULL) return bytes_resize(bytes, change->count);
    return bytes_write(bytes, change->offset, change->bytes, change->count);
}

bool inode_sync(Inode *inode) {
    for (int i = 0; i < inode->changeCount; i++) {
        if (!carry_out(&inode->synced, &inode->changes[i])) return false;
    }
    forget_changes(inode);
    return true;
}

/* One sector's part of a write, which the disk was about to do when the power went. */
static void settle_sector(
    Bytes *disk, int64_t offset, const unsigned char *bytes, int64_t count, Fates fates,
    uint64_t *chance) {
    uint64_t fate = chance_below(chance, 256);
    if (fate < fates.kept) {
        (void)bytes_write(disk, offset, bytes, count);
    } else if (fate < fates.kept + fates.torn) {
        /* A sector is written from one end to the other: the first or the last part is new. */
        int64_t part = 1 + (int64_t)chance_below(chance, (uint64_t)count);
        int64_t start = chance_below(chance, 2) == 0 ? 0 : count - part;
        (void)bytes_write(disk, offset + start, bytes + start, part);
    } else if (fate < fates.kept + fates.torn + fates.garbled) {
        unsigned char garbage[sectorBytes];
        for (int64_t i = 0; i < count; i++) garbage[i] = (unsigned char)chance_next(chance);
        (void)bytes_write(disk, offset, garbage, count);
    }
}

static void settle(Inode *inode, Fates fates, uint64_t *chance) {
    for (int i = 0; i < inode->changeCount; i++) {
        const Change *change = &inode->changes[i];
        if (change->bytes == NULL) {
            if (chance_below(chance, 256) < fates.kept) (void)carry_out(&inode->synced, change);
            continue;
        }
        int64_t done = 0;
        while (done < change->count) {
            int64_t offset = change->offset + done;
            int64_t count = sectorBytes - offset % sectorBytes;
            if (count > change->count - done) count = change->count - done;
            settle_sector(&inode->synced, offset, change->bytes + done, count, fates, chance);
            done += count;
        }
    }
    forget_changes(inode);
}

void inode_lose_sync(Inode *inode, uint64_t *chance) {
    settle(inode, (Fates){.kept = 128}, chance);
}

void inode_crash(Inode *inode, Fates fates, uint64_t *chance) {
    settle(inode, fates, chance);
    (void)bytes_resize(&inode->seen, 0);
    (void)bytes_write(&inode->seen, 0, inode->synced.data, inode->synced.count);
    inode->sharedCount = 0;
    inode->reserved = inode->pending = inode->exclusive = NULL;
    /* Shared memory belongs to the connections of before, which let go of it themselves. */
    inode->shared = NULL;
}
