// PostgreSQL's own client library, under the names of its header.
#include <libpq-fe.h>
