#ifndef PS_COMMON_OS_SPILL_H
#define PS_COMMON_OS_SPILL_H
/*
 * os/spill.h — a file without a name for what does not fit into memory: written from front to back,
 * then mapped. Gone with the process, however that ends.
 */
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "os/file.h"

struct ps_spill {
    int fd;
    uint64_t n_bytes;
};

/** Make one in `folder`. @return PS_ERR_IO */
PS_MUST_CHECK enum ps_status ps_spill_open(struct ps_spill *spill, const char *folder,
                                           struct ps_error *err);

PS_MUST_CHECK enum ps_status ps_spill_add(struct ps_spill *spill, const void *data, size_t n_bytes,
                                          struct ps_error *err);

/** Map what was added so far; for ps_file_unmap. */
PS_MUST_CHECK enum ps_status ps_spill_map(const struct ps_spill *spill, struct ps_file_view *ret,
                                          struct ps_error *err);

void ps_spill_close(struct ps_spill *spill);

#endif
