#ifndef PS_COMMON_NUM_KERNEL_H
#define PS_COMMON_NUM_KERNEL_H
/*
 * num/kernel.h — element-wise arithmetic over payloads: plain C that the compiler vectorises.
 *
 * A payload is `n` little-endian f32 at any address; `x_bytes` points at its first byte and must
 * not overlap `y`. Every result depends on its own element alone and nothing is contracted or
 * reordered, so the bits are the same with any compiler and vector width. Pure; any thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/** True when none of `n` floats is NaN or infinite. */
bool ps_kernel_finite(const uint8_t *bytes, size_t n);

/** y[i] += x[i] */
void ps_kernel_add(float *y, const uint8_t *x_bytes, size_t n);

/** y[i] += a * x[i], rounded after the product and after the sum. */
void ps_kernel_axpy(float *y, float a, const uint8_t *x_bytes, size_t n);

/** y[i] *= a */
void ps_kernel_scale(float *y, float a, size_t n);

/**
 * True when the next `n_floats` of the cursor are there and finite. Floats may straddle slices.
 * The cursor is a copy: the caller's place does not move.
 */
bool ps_cursor_finite(struct ps_cursor c, size_t n_floats);

#endif
