#ifndef TIDEMARK_FAULT_VOLUME_H
#define TIDEMARK_FAULT_VOLUME_H

#include "CFaultVFS.h"
#include "inode.h"

#include <sqlite3.h>

/*
 * A name in a volume's only directory: which file it stands for now, for which surely after a crash,
 * and what it stood for in between, oldest first. NULL is no file.
 */
typedef struct Name {
    struct Name *next;
    Inode *live;
    Inode *synced;
    Inode **between;
    int betweenCount;
    char text[];
} Name;

typedef struct {
    unsigned calls;
    uint64_t nth;
    bool onwards;
    int fault;
    uint64_t seen;
    uint64_t failed;
} Plan;

struct FaultVolume {
    FaultVolume *next;
    sqlite3_mutex *mutex;
    /* The open files, and the one who made the volume. */
    int users;
    /* Raised by a crash: handles of an older life are dead. */
    int life;
    bool isOff;
    bool ignoresSyncs;
    int64_t capacity;
    uint64_t chance;
    Plan plan;
    /* Newest first; names are never taken out. */
    Name *names;
    char name[];
};

/* Guards the list of volumes. */
sqlite3_mutex *volume_list_mutex(void);

/*
 * Finds the volume of a path and retains it, and the file's name in it. NULL when the path is none of
 * a volume's.
 */
FaultVolume *volume_of_path(const char *path, const char **file);

/* Whether a path is of this VFS at all. */
bool volume_owns_path(const char *path);

void volume_enter(FaultVolume *volume);
void volume_leave(FaultVolume *volume);

/* Gives up one use. Outside the volume's mutex. */
void volume_release(FaultVolume *volume);

/* What follows needs the volume's mutex. */

/* Counts a call, and says with which fault it has to fail. */
int volume_fault(FaultVolume *volume, unsigned call);

/* A name, made when `makes` and there is none. */
Name *volume_name(FaultVolume *volume, const char *file, bool makes);

/* Lets a name stand for another file, or none, without a sync. False when there is no memory. */
bool name_set(Name *name, Inode *inode);

/* Makes all names durable. */
void volume_sync_names(FaultVolume *volume);

/* The bytes that all files have. */
int64_t volume_used(FaultVolume *volume);

#endif
