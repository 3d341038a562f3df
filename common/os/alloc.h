#ifndef PS_COMMON_OS_ALLOC_H
#define PS_COMMON_OS_ALLOC_H
/*
 * os/alloc.h — settings of the C library's heap. Call once, first thing in main of each daemon.
 *
 * Without them the receiver of large messages gives every buffer back to the kernel and faults the
 * same pages in again for the next one: half of the throughput of 1 MiB pushes.
 */

void ps_alloc_tune(void);

#endif
