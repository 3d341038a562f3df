/* idx.c — see idx.h. */
#include "data/idx.h"

#include <inttypes.h>

#include "base/bytes.h"
#include "base/shape.h"

#define MAGIC_BYTES 4u

/* IDX is the one big-endian format here. */
static uint32_t load_u32_big(const uint8_t *from)
{
    return __builtin_bswap32(ps_load_u32(from));
}

static enum ps_status check_magic(const uint8_t *data, size_t n_bytes, struct ps_error *err)
{
    if (n_bytes < MAGIC_BYTES) {
        return ps_fail(err, PS_ERR_INVALID, "expected an IDX file, found only %zu bytes", n_bytes);
    }
    if (data[0] == 0x1f && data[1] == 0x8b) {
        return ps_fail(err, PS_ERR_INVALID, "expected an IDX file, but it is gzip-compressed");
    }
    if (data[0] != 0 || data[1] != 0) {
        return ps_fail(err, PS_ERR_INVALID,
                       "expected an IDX file (beginning 00 00 08), found %02x %02x %02x",
                       (unsigned)data[0], (unsigned)data[1], (unsigned)data[2]);
    }
    if (data[2] != PS_IDX_TYPE_UBYTE) {
        return ps_fail(err, PS_ERR_INVALID,
                       "expected IDX type 0x08 (unsigned bytes), found type 0x%02x",
                       (unsigned)data[2]);
    }
    if (data[3] < 1 || data[3] > PS_IDX_DIMS_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "expected 1 to %u IDX dimensions, found %u",
                       PS_IDX_DIMS_MAX, (unsigned)data[3]);
    }
    return PS_OK;
}

enum ps_status ps_idx_parse(const uint8_t *data, size_t n_bytes, struct ps_idx_view *ret,
                            struct ps_error *err)
{
    enum ps_status status = check_magic(data, n_bytes, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_idx_view view = {.n_dims = data[3]};
    uint64_t n_values = 1;
    size_t n_head = MAGIC_BYTES + 4u * view.n_dims;
    if (n_bytes < n_head) {
        return ps_fail(err, PS_ERR_INVALID,
                       "cut off: expected a header of %zu bytes, found %zu bytes", n_head, n_bytes);
    }
    for (uint32_t i = 0; i < view.n_dims; i++) {
        view.dims[i] = load_u32_big(data + MAGIC_BYTES + 4 * (size_t)i);
        if (view.dims[i] == 0) {
            return ps_fail(err, PS_ERR_INVALID, "holds nothing: IDX dimension %" PRIu32 " is 0", i);
        }
        if (!ps_shape_times(&n_values, view.dims[i], SIZE_MAX)) {
            return ps_fail(err, PS_ERR_INVALID, "the IDX dimensions are too large to be true");
        }
    }
    view.n_values = (size_t)n_values;
    size_t n_body = n_bytes - n_head;
    if (n_body < view.n_values) {
        return ps_fail(err, PS_ERR_INVALID,
                       "cut off: expected %zu bytes after the header, found %zu", view.n_values,
                       n_body);
    }
    if (n_body > view.n_values) {
        return ps_fail(err, PS_ERR_INVALID,
                       "expected %zu bytes after the header, found %zu more behind them",
                       view.n_values, n_body - view.n_values);
    }
    view.values = data + n_head;
    *ret = view;
    return PS_OK;
}
