#ifndef PS_TOOLS_PSCTL_OUT_H
#define PS_TOOLS_PSCTL_OUT_H
/*
 * psctl_out.h — where results go: standard output, or a file that is replaced as a whole.
 */
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "os/posix_disk.h"

#define PSCTL_OUT_BYTES (256u << 10)

struct psctl_out {
    const char *path; /* Borrowed; NULL: standard output. */
    struct ps_replacing file;
    uint64_t at;
    size_t n_bytes;
    char bytes[PSCTL_OUT_BYTES];
};

/** On failure there is nothing to end. */
PS_MUST_CHECK enum ps_status psctl_out_begin(struct psctl_out *out, const char *path,
                                             struct ps_error *err);

PS_MUST_CHECK enum ps_status psctl_out_add(struct psctl_out *out, const void *data, size_t n_bytes,
                                           struct ps_error *err);

PS_MUST_CHECK enum ps_status psctl_out_text(struct psctl_out *out, struct ps_error *err,
                                            const char *fmt, ...) PS_PRINTF(3, 4);

/** `status` is how the work went: a file is put in its place only if that is PS_OK. */
PS_MUST_CHECK enum ps_status psctl_out_end(struct psctl_out *out, enum ps_status status,
                                           struct ps_error *err);

#endif
