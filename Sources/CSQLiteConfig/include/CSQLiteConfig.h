#ifndef TIDEMARK_CSQLITECONFIG_H
#define TIDEMARK_CSQLITECONFIG_H

/*
 * SQLite's settings for the whole process, which it takes as variable arguments: Swift cannot pass
 * these.
 */

/*
 * Has SQLite keep so many bytes of what a statement or a savepoint may have to undo in memory before
 * it makes a temporary file of them. Fewer than 131,072: its files take no more in one write.
 *
 * Returns SQLITE_OK, or SQLITE_MISUSE and does nothing when SQLite is in use already.
 */
int tidemark_keep_statement_journals(int bytes);

#endif
