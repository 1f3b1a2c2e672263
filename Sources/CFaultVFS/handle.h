#ifndef TIDEMARK_FAULT_HANDLE_H
#define TIDEMARK_FAULT_HANDLE_H

#include "volume.h"

/* An open file, as SQLite knows it. */
struct Handle {
    sqlite3_file base;
    FaultVolume *volume;
    Inode *inode;
    /* The volume's life in which it was opened. */
    int life;
    /* Its name lasts only once the directory was synced, which its first sync does. */
    bool syncsNames;
    /* Its name goes when it is closed. */
    bool isTemporary;
    /* SQLite's level: SQLITE_LOCK_NONE to SQLITE_LOCK_EXCLUSIVE. */
    int lock;
    /* The memory shared with other connections, and the slots locked by this one, as bits. */
    Shared *shared;
    unsigned sharedSlots;
    unsigned exclusiveSlots;
};

extern const sqlite3_io_methods handle_methods;

/* Enters the volume and counts the call; what it has to fail with, also when the handle is dead. */
int handle_enter(Handle *handle, unsigned call);
void handle_leave(Handle *handle);

/* Whether a crash has cut the handle off. In the volume's mutex. */
bool handle_is_dead(const Handle *handle);

/* locks.c: SQLite's file locks. */
int handle_lock(sqlite3_file *file, int level);
int handle_unlock(sqlite3_file *file, int level);
int handle_check_reserved(sqlite3_file *file, int *out);

/* shared.c: the memory of WAL mode. */
int handle_share_map(sqlite3_file *file, int region, int size, int extends, void volatile **out);
int handle_share_lock(sqlite3_file *file, int first, int count, int flags);
void handle_share_barrier(sqlite3_file *file);
int handle_share_unmap(sqlite3_file *file, int removes);

#endif
