#ifndef PS_COMMON_BASE_ID_H
#define PS_COMMON_BASE_ID_H
/*
 * base/id.h — 128-bit names of sessions, incarnations, clusters and traces. All zero is "none".
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <ps/types.h> /* struct ps_id, ps_id_text, ps_id_parse */

static inline bool ps_id_equal(const struct ps_id *a, const struct ps_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static inline bool ps_id_none(const struct ps_id *id)
{
    static const struct ps_id none;
    return ps_id_equal(id, &none);
}

/** The id in `n_bytes` bytes from the wire; false unless there are exactly 16. */
bool ps_id_from(const uint8_t *data, size_t n_bytes, struct ps_id *ret);

#endif
