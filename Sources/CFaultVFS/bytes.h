#ifndef TIDEMARK_FAULT_BYTES_H
#define TIDEMARK_FAULT_BYTES_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that grow: what a file holds. */
typedef struct {
    unsigned char *data;
    int64_t count;
    int64_t room;
} Bytes;

/* Writes at an offset; a gap becomes zeros. False when there is no memory. */
bool bytes_write(Bytes *bytes, int64_t offset, const void *from, int64_t count);

/* Cuts, or lengthens with zeros. False when there is no memory. */
bool bytes_resize(Bytes *bytes, int64_t count);

void bytes_free(Bytes *bytes);

#endif
