// zlib, found by the system: `zlib1g-dev` on Debian, part of the SDK on Apple's systems.
#include <zlib.h>
