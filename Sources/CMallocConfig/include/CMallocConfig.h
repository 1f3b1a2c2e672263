#ifndef TIDEMARK_CMALLOCCONFIG_H
#define TIDEMARK_CMALLOCCONFIG_H

/*
 * A setting of glibc's allocator, which Swift's module of glibc does not have.
 */

/*
 * Has blocks of so many bytes and more be the system's, to which they go back when they are freed.
 * It is for the whole process, and nothing where the allocator is another one.
 */
void tidemark_give_back_blocks(int bytes_min);

#endif
