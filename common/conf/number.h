#ifndef PS_COMMON_CONF_NUMBER_H
#define PS_COMMON_CONF_NUMBER_H
/*
 * conf/number.h — numbers as people write them, the same in every locale.
 *
 * Each function reads the whole text or refuses it: no leading blanks, no rest, no overflow that
 * wraps, no NaN, no infinity. On refusal `*ret` is unchanged.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

/** Decimal digits only: no sign, no blanks, no 0x. */
PS_MUST_CHECK bool ps_number_u64(const char *text, uint64_t *ret);

/** As C writes them in decimal: 0.1, .5, 1e-3, -2. Finite. */
PS_MUST_CHECK bool ps_number_f64(const char *text, double *ret);

/** 4096, 64KiB, 1.5GiB, 10MB: units B, kB/KB, MB, GB, TB (1000) and KiB, MiB, GiB, TiB (1024). */
PS_MUST_CHECK bool ps_number_bytes(const char *text, uint64_t *ret);

/** 0, 250ms, 1.5s, 2m, 1h. A unit is required unless the number is 0. */
PS_MUST_CHECK bool ps_number_duration_ms(const char *text, uint64_t *ret);

/** Numbers joined by commas, at most `n_max`; an empty text is none. */
PS_MUST_CHECK bool ps_number_list_u32(const char *text, uint32_t *values, size_t n_max,
                                      uint32_t *ret_n);

#endif
