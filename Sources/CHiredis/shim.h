// The client library of Redis and Valkey, under the names of its header.
#include <hiredis/hiredis.h>
