/* random.c — see random.h. */
#include "os/random.h"

#include <sys/random.h>

#include "base/assert.h"

void ps_random_id(struct ps_id *ret)
{
    do {
        ssize_t n_read = getrandom(ret->bytes, sizeof(ret->bytes), 0);
        PS_ASSERT(n_read == (ssize_t)sizeof(ret->bytes)); /* Up to 256 bytes come as a whole. */
    } while (ps_id_none(ret));
}
