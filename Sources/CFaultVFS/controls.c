/* What a test tells a volume, and asks of it. */

#include "volume.h"

#include <string.h>

void fault_volume_fail(FaultVolume *volume, unsigned calls, uint64_t nth, bool onwards, int fault) {
    volume_enter(volume);
    volume->plan = (Plan){.calls = calls, .nth = nth, .onwards = onwards, .fault = fault};
    volume_leave(volume);
}

uint64_t fault_volume_calls(FaultVolume *volume) {
    volume_enter(volume);
    uint64_t calls = volume->plan.seen;
    volume_leave(volume);
    return calls;
}

uint64_t fault_volume_failures(FaultVolume *volume) {
    volume_enter(volume);
    uint64_t failures = volume->plan.failed;
    volume_leave(volume);
    return failures;
}

void fault_volume_set_capacity(FaultVolume *volume, int64_t bytes) {
    volume_enter(volume);
    volume->capacity = bytes;
    volume_leave(volume);
}

int64_t fault_volume_used(FaultVolume *volume) {
    volume_enter(volume);
    int64_t used = volume_used(volume);
    volume_leave(volume);
    return used;
}

void fault_volume_ignore_syncs(FaultVolume *volume, bool ignore) {
    volume_enter(volume);
    volume->ignoresSyncs = ignore;
    volume_leave(volume);
}

static Inode *live_file(FaultVolume *volume, const char *file) {
    Name *name = volume_name(volume, file, false);
    return name == NULL ? NULL : name->live;
}

int64_t fault_volume_size(FaultVolume *volume, const char *file) {
    volume_enter(volume);
    Inode *inode = live_file(volume, file);
    int64_t count = inode == NULL ? -1 : inode->seen.count;
    volume_leave(volume);
    return count;
}

int64_t fault_volume_read(
    FaultVolume *volume, const char *file, int64_t offset, void *bytes, int64_t count) {
    volume_enter(volume);
    Inode *inode = live_file(volume, file);
    int64_t there = inode == NULL ? 0 : inode->seen.count - offset;
    if (count > there) count = there > 0 ? there : 0;
    if (count > 0) memcpy(bytes, inode->seen.data + offset, (size_t)count);
    volume_leave(volume);
    return count;
}

/* A new file under the name, complete and synced; connections to the old one keep that one. */
static bool replace(FaultVolume *volume, const char *file, const void *bytes, int64_t count) {
    Name *name = volume_name(volume, file, bytes != NULL);
    if (name == NULL) return bytes == NULL;
    Inode *inode = bytes == NULL ? NULL : inode_create();
    if (bytes != NULL && inode == NULL) return false;
    bool isDone = name_set(name, inode);
    if (isDone && inode != NULL) {
        isDone = inode_write(inode, 0, bytes, count) && inode_sync(inode);
    }
    inode_release(inode);
    volume_sync_names(volume);
    return isDone;
}

bool fault_volume_replace(
    FaultVolume *volume, const char *file, const void *bytes, int64_t count) {
    volume_enter(volume);
    bool isDone = replace(volume, file, bytes, count);
    volume_leave(volume);
    return isDone;
}

const char *fault_volume_file(FaultVolume *volume, int index) {
    volume_enter(volume);
    Name *name = volume->names;
    while (name != NULL && (name->live == NULL || index > 0)) {
        if (name->live != NULL) index -= 1;
        name = name->next;
    }
    volume_leave(volume);
    return name == NULL ? NULL : name->text;
}
