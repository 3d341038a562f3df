/* random.c — see random.h. */
#include "os/random.h"

#include <sys/random.h>

#include "base/assert.h"

void ps_random_id(struct ps_id *ret)
{
    struct ps_id id;
    do {
        ssize_t n_read = getrandom(id.bytes, sizeof(id.bytes), 0);
        PS_ASSERT(n_read == (ssize_t)sizeof(id.bytes)); /* Up to 256 bytes come as a whole. */
    } while (ps_id_none(&id));
    *ret = id;
}

void ps_random_bytes(void *to, size_t n_bytes)
{
    PS_ASSERT(n_bytes <= 256);
    ssize_t n_read = getrandom(to, n_bytes, 0);
    PS_ASSERT(n_read == (ssize_t)n_bytes);
}
