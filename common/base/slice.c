/* slice.c — see slice.h. */
#include "base/slice.h"

#include <string.h>

#include "base/assert.h"

struct ps_cursor ps_cursor_over(const struct ps_slice *slices, size_t n_slices)
{
    struct ps_cursor c = {.slices = slices, .n_slices = n_slices};
    for (size_t i = 0; i < n_slices; i++) {
        c.n_left += slices[i].n_bytes;
    }
    return c;
}

/* Step over slices that are used up, empty ones included. */
static void settle(struct ps_cursor *c)
{
    while (c->n_left > 0 && c->offset == c->slices->n_bytes) {
        PS_ASSERT(c->n_slices > 1);
        c->slices++;
        c->n_slices--;
        c->offset = 0;
    }
}

static void fail(struct ps_cursor *c)
{
    c->failed = true;
    c->n_left = 0;
}

size_t ps_cursor_run(struct ps_cursor *c, size_t n_max, const uint8_t **ret)
{
    settle(c);
    size_t n = c->n_left < n_max ? c->n_left : n_max;
    if (n == 0) {
        return 0;
    }
    size_t n_here = c->slices->n_bytes - c->offset;
    n = n < n_here ? n : n_here;
    *ret = c->slices->data + c->offset;
    c->offset += n;
    c->n_left -= n;
    return n;
}

void ps_cursor_skip(struct ps_cursor *c, size_t n_bytes)
{
    if (n_bytes > c->n_left) {
        fail(c);
        return;
    }
    const uint8_t *run = NULL;
    while (n_bytes > 0) {
        n_bytes -= ps_cursor_run(c, n_bytes, &run);
    }
}

void ps_cursor_copy(struct ps_cursor *c, void *to, size_t n_bytes)
{
    uint8_t *out = to;
    if (n_bytes > c->n_left) {
        fail(c);
        memset(out, 0, n_bytes);
        return;
    }
    while (n_bytes > 0) {
        const uint8_t *run = NULL;
        size_t n = ps_cursor_run(c, n_bytes, &run);
        PS_ASSERT(run != NULL); /* n_left says that there are bytes. */
        memcpy(out, run, n);
        out += n;
        n_bytes -= n;
    }
}

struct ps_cursor ps_cursor_split(struct ps_cursor *c, size_t n_bytes)
{
    struct ps_cursor part = *c;
    if (n_bytes > c->n_left) {
        fail(c);
        fail(&part);
        return part;
    }
    part.n_left = n_bytes;
    ps_cursor_skip(c, n_bytes);
    return part;
}

uint64_t ps_cursor_varint(struct ps_cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = 0;
        ps_cursor_copy(c, &byte, 1);
        if (c->failed) {
            return 0;
        }
        if (shift < 64) {
            value |= (uint64_t)(byte & 0x7fu) << shift;
        }
        if ((byte & 0x80u) == 0) {
            return value;
        }
    }
    fail(c);
    return 0;
}
