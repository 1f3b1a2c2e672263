#include "bytes.h"

#include <stdlib.h>
#include <string.h>

static bool make_room(Bytes *bytes, int64_t count) {
    if (count <= bytes->room) return true;
    int64_t room = bytes->room > 0 ? bytes->room : 4096;
    while (room < count) room *= 2;
    unsigned char *data = realloc(bytes->data, (size_t)room);
    if (data == NULL) return false;
    bytes->data = data;
    bytes->room = room;
    return true;
}

bool bytes_resize(Bytes *bytes, int64_t count) {
    if (!make_room(bytes, count)) return false;
    if (count > bytes->count) {
        memset(bytes->data + bytes->count, 0, (size_t)(count - bytes->count));
    }
    bytes->count = count;
    return true;
}

bool bytes_write(Bytes *bytes, int64_t offset, const void *from, int64_t count) {
    if (count == 0) return true;
    if (offset + count > bytes->count && !bytes_resize(bytes, offset + count)) return false;
    memcpy(bytes->data + offset, from, (size_t)count);
    return true;
}

void bytes_free(Bytes *bytes) {
    free(bytes->data);
    *bytes = (Bytes){0};
}
