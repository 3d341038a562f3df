/* psctl_out.c — see psctl_out.h. */
#include "psctl_out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define LINE_BYTES 8192u /* A path, and numbers. */

enum ps_status psctl_out_begin(struct psctl_out *out, const char *path, struct ps_error *err)
{
    out->path = path;
    out->at = 0;
    out->n_bytes = 0;
    return path != NULL ? ps_replacing_begin(&out->file, path, err) : PS_OK;
}

static enum ps_status flush(struct psctl_out *out, struct ps_error *err)
{
    size_t n_bytes = out->n_bytes;
    out->n_bytes = 0;
    if (out->path == NULL) {
        return fwrite(out->bytes, 1, n_bytes, stdout) == n_bytes && fflush(stdout) == 0
                   ? PS_OK
                   : ps_fail(err, PS_ERR_IO, "standard output: %s", strerrordesc_np(errno));
    }
    enum ps_status status = ps_replacing_write(&out->file, out->at, out->bytes, n_bytes, err);
    out->at += n_bytes;
    return status;
}

enum ps_status psctl_out_add(struct psctl_out *out, const void *data, size_t n_bytes,
                             struct ps_error *err)
{
    const char *from = data;
    enum ps_status status = PS_OK;
    while (status == PS_OK && n_bytes > 0) {
        size_t n = PSCTL_OUT_BYTES - out->n_bytes;
        n = n < n_bytes ? n : n_bytes;
        memcpy(out->bytes + out->n_bytes, from, n);
        out->n_bytes += n;
        from += n;
        n_bytes -= n;
        status = out->n_bytes == PSCTL_OUT_BYTES ? flush(out, err) : PS_OK;
    }
    return status;
}

enum ps_status psctl_out_text(struct psctl_out *out, struct ps_error *err, const char *fmt, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    PS_ASSERT(n >= 0);
    return psctl_out_add(out, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1, err);
}

enum ps_status psctl_out_end(struct psctl_out *out, enum ps_status status, struct ps_error *err)
{
    status = status == PS_OK ? flush(out, err) : status;
    if (out->path == NULL) {
        return status;
    }
    if (status != PS_OK) {
        ps_replacing_cancel(&out->file);
        return status;
    }
    return ps_replacing_finish(&out->file, err);
}
