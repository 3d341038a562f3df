#ifndef PS_WORKER_DATA_DECIMAL_H
#define PS_WORKER_DATA_DECIMAL_H
/*
 * data/decimal.h — decimal numbers out of a line of text, the same in every locale. Pure.
 *
 * The text needs no end of its own, but must be followed by a byte that is no part of a number:
 * the end of a line, a blank, a separator, a 0. Results are the float nearest to what is written,
 * ties to even, however many digits there are. Infinity, NaN and hexadecimal are no numbers here.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/**
 * Read a number as [+-] digits [. digits] [e [+-] digits] at the beginning of `text`.
 *
 * @param ret  the number; infinite when it is too large for a float
 * @return behind the number, or NULL when `text` does not begin with one
 */
PS_MUST_CHECK const char *ps_decimal_f32(const char *text, float *ret);

/**
 * Read digits as a whole number; `*ret_fits` is false when 64 bits do not hold it.
 *
 * @return behind the digits, or NULL when there are none
 */
PS_MUST_CHECK const char *ps_decimal_u64(const char *text, uint64_t *ret, bool *ret_fits);

/** True when the whole of `text` [n_bytes] is one number; then `*ret` is it, infinite as above. */
PS_MUST_CHECK bool ps_decimal_whole(const char *text, size_t n_bytes, float *ret);

#endif
