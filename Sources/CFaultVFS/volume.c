#include "volume.h"

#include "chance.h"

#include <stdlib.h>
#include <string.h>

static const char prefix[] = "/tidemark-fault/";
static FaultVolume *volumes;

sqlite3_mutex *volume_list_mutex(void) { return sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_APP1); }

void volume_enter(FaultVolume *volume) { sqlite3_mutex_enter(volume->mutex); }

void volume_leave(FaultVolume *volume) { sqlite3_mutex_leave(volume->mutex); }

bool volume_owns_path(const char *path) {
    return path != NULL && strncmp(path, prefix, sizeof(prefix) - 1) == 0;
}

static FaultVolume *find(const char *name, size_t length) {
    for (FaultVolume *volume = volumes; volume != NULL; volume = volume->next) {
        if (strncmp(volume->name, name, length) == 0 && volume->name[length] == 0) return volume;
    }
    return NULL;
}

FaultVolume *volume_of_path(const char *path, const char **file) {
    if (!volume_owns_path(path)) return NULL;
    const char *name = path + sizeof(prefix) - 1;
    const char *slash = strchr(name, '/');
    if (slash == NULL) return NULL;
    sqlite3_mutex_enter(volume_list_mutex());
    FaultVolume *volume = find(name, (size_t)(slash - name));
    if (volume != NULL) volume->users += 1;
    sqlite3_mutex_leave(volume_list_mutex());
    *file = slash + 1;
    return volume;
}

FaultVolume *fault_volume_create(const char *name) {
    if (sqlite3_initialize() != SQLITE_OK) return NULL;
    size_t length = strlen(name);
    FaultVolume *volume = calloc(1, sizeof(FaultVolume) + length + 1);
    if (volume == NULL) return NULL;
    memcpy(volume->name, name, length + 1);
    volume->users = 1;
    volume->capacity = INT64_MAX;
    volume->mutex = sqlite3_mutex_alloc(SQLITE_MUTEX_FAST);
    sqlite3_mutex_enter(volume_list_mutex());
    bool isNew = find(name, length) == NULL;
    if (isNew) {
        volume->next = volumes;
        volumes = volume;
    }
    sqlite3_mutex_leave(volume_list_mutex());
    if (isNew) return volume;
    sqlite3_mutex_free(volume->mutex);
    free(volume);
    return NULL;
}

static void name_forget_between(Name *name) {
    for (int i = 0; i < name->betweenCount; i++) inode_release(name->between[i]);
    name->betweenCount = 0;
}

static void free_volume(FaultVolume *volume) {
    while (volume->names != NULL) {
        Name *name = volume->names;
        volume->names = name->next;
        name_forget_between(name);
        free(name->between);
        inode_release(name->live);
        inode_release(name->synced);
        free(name);
    }
    sqlite3_mutex_free(volume->mutex);
    free(volume);
}

void volume_release(FaultVolume *volume) {
    sqlite3_mutex_enter(volume_list_mutex());
    volume->users -= 1;
    bool isLast = volume->users == 0;
    sqlite3_mutex_leave(volume_list_mutex());
    if (isLast) free_volume(volume);
}

void fault_volume_destroy(FaultVolume *volume) {
    sqlite3_mutex_enter(volume_list_mutex());
    FaultVolume **link = &volumes;
    while (*link != NULL && *link != volume) link = &(*link)->next;
    if (*link != NULL) *link = volume->next;
    sqlite3_mutex_leave(volume_list_mutex());
    volume_release(volume);
}

int volume_fault(FaultVolume *volume, unsigned call) {
    if (volume->isOff) return FAULT_POWER;
    Plan *plan = &volume->plan;
    if ((plan->calls & call) == 0) return FAULT_NONE;
    plan->seen += 1;
    bool isDue = plan->onwards ? plan->seen >= plan->nth : plan->seen == plan->nth;
    if (plan->nth == 0 || !isDue) return FAULT_NONE;
    plan->failed += 1;
    if (plan->fault == FAULT_POWER) volume->isOff = true;
    return plan->fault;
}

Name *volume_name(FaultVolume *volume, const char *file, bool makes) {
    for (Name *name = volume->names; name != NULL; name = name->next) {
        if (strcmp(name->text, file) == 0) return name;
    }
    if (!makes) return NULL;
    size_t length = strlen(file);
    Name *name = calloc(1, sizeof(Name) + length + 1);
    if (name == NULL) return NULL;
    memcpy(name->text, file, length + 1);
    name->next = volume->names;
    volume->names = name;
    return name;
}

bool name_set(Name *name, Inode *inode) {
    Inode **between = realloc(
        name->between, (size_t)(name->betweenCount + 1) * sizeof(Inode *));
    if (between == NULL) return false;
    name->between = between;
    between[name->betweenCount++] = inode_retain(inode);
    inode_release(name->live);
    name->live = inode_retain(inode);
    return true;
}

void volume_sync_names(FaultVolume *volume) {
    for (Name *name = volume->names; name != NULL; name = name->next) {
        if (name->betweenCount == 0) continue;
        name_forget_between(name);
        inode_release(name->synced);
        name->synced = inode_retain(name->live);
    }
}

int64_t volume_used(FaultVolume *volume) {
    int64_t sum = 0;
    for (Name *name = volume->names; name != NULL; name = name->next) {
        if (name->live != NULL) sum += name->live->seen.count;
    }
    return sum;
}

/* The power goes: one of the things that a name stood for since the last sync is what it is now. */
static void name_crash(Name *name, Fates fates, uint64_t *chance) {
    Inode *outcome = name->synced;
    if (name->betweenCount > 0 && chance_below(chance, 256) < fates.kept) {
        outcome = name->live;
    } else if (name->betweenCount > 0) {
        uint64_t index = chance_below(chance, (uint64_t)name->betweenCount + 1);
        if (index > 0) outcome = name->between[index - 1];
    }
    inode_retain(outcome);
    name_forget_between(name);
    inode_release(name->live);
    inode_release(name->synced);
    name->live = outcome;
    name->synced = inode_retain(outcome);
    if (outcome != NULL) inode_crash(outcome, fates, chance);
}

void fault_volume_crash(FaultVolume *volume, uint64_t seed) {
    uint64_t chance = seed;
    /* The extremes are the likeliest to show a missing sync; the mixtures a missing check. */
    Fates fates = {0};
    switch (chance_below(&chance, 8)) {
    case 0: break;
    case 1: fates = (Fates){.kept = 256}; break;
    case 2: fates = (Fates){.kept = 224, .torn = 32}; break;
    case 3: fates = (Fates){.kept = 64, .torn = 64, .garbled = 64}; break;
    default:
        fates.kept = chance_below(&chance, 257);
        fates.torn = chance_below(&chance, 257 - fates.kept);
        break;
    }
    volume_enter(volume);
    for (Name *name = volume->names; name != NULL; name = name->next) {
        name_crash(name, fates, &chance);
    }
    volume->life += 1;
    volume->isOff = false;
    volume->plan = (Plan){0};
    volume_leave(volume);
}
