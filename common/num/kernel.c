/*
 * kernel.c — see kernel.h.
 *
 * An f32 is finite unless its eight exponent bits are all ones, so looking is integer work: no
 * float comparison, no signalling NaN, and the loop is a plain OR that vectorises.
 */
#include "num/kernel.h"

#include "base/bytes.h"
#include "num/vector.h"

#define EXPONENT_BITS 0x7f800000u
#define LOOK_FLOATS   4096u /* Looked at between two chances to stop: 16 KiB, half a first cache. */

/* Not 0 when one of `n` floats is not finite. */
static uint32_t spoiled(const uint8_t *bytes, size_t n)
{
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t exponent = ps_load_u32(bytes + i * sizeof(float)) & EXPONENT_BITS;
        found |= exponent == EXPONENT_BITS ? 1u : 0u;
    }
    return found;
}

bool ps_kernel_finite(const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        size_t n_look = n < LOOK_FLOATS ? n : LOOK_FLOATS;
        if (spoiled(bytes, n_look) != 0) {
            return false;
        }
        bytes += n_look * sizeof(float);
        n -= n_look;
    }
    return true;
}

void ps_kernel_add(float *y, const uint8_t *x_bytes, size_t n)
{
    PS_VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] += ps_f32_at(x_bytes, i);
    }
}

void ps_kernel_axpy(float *y, float a, const uint8_t *x_bytes, size_t n)
{
    PS_VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] += a * ps_f32_at(x_bytes, i);
    }
}

void ps_kernel_scale(float *y, float a, size_t n)
{
    PS_VECTOR_LOOP
    for (size_t i = 0; i < n; i++) {
        y[i] *= a;
    }
}

bool ps_cursor_finite(struct ps_cursor c, size_t n_floats)
{
    size_t n_left = 0; /* Bytes. A multiple of four at the start of every pass. */
    if (!ps_mul_size(n_floats, sizeof(float), &n_left) || c.failed || n_left > c.n_left) {
        return false;
    }
    while (n_left > 0) {
        const uint8_t *run = NULL;
        size_t n_bytes = ps_cursor_run(&c, n_left, &run);
        size_t n_whole = n_bytes / sizeof(float);
        size_t n_carry = n_bytes % sizeof(float);
        if (!ps_kernel_finite(run, n_whole)) {
            return false;
        }
        n_left -= n_bytes;
        if (n_carry > 0) {
            uint8_t torn[sizeof(float)];
            memcpy(torn, run + n_whole * sizeof(float), n_carry);
            ps_cursor_copy(&c, torn + n_carry, sizeof(torn) - n_carry);
            n_left -= sizeof(torn) - n_carry;
            if (!ps_kernel_finite(torn, 1)) {
                return false;
            }
        }
    }
    return true;
}
