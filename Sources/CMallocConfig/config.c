#include "CMallocConfig.h"

#ifdef __linux__
#include <malloc.h>
#endif

void tidemark_give_back_blocks(int bytes_min)
{
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_THRESHOLD, bytes_min);
#else
    (void)bytes_min;
#endif
}
