#ifndef PS_COMMON_OS_RANDOM_H
#define PS_COMMON_OS_RANDOM_H
/*
 * os/random.h — names that nobody else has: 128 random bits from the kernel.
 */
#include <stddef.h>

#include "base/id.h"

/** Fill `ret`; never "none". Blocks only in the first moments after the machine's start. */
void ps_random_id(struct ps_id *ret);

/** The same for up to 256 bytes. */
void ps_random_bytes(void *to, size_t n_bytes);

#endif
