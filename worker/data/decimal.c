/*
 * decimal.c — see decimal.h.
 *
 * Up to 19 digits go into an integer w, and the number is w * 10^e. With |e| <= 22 one operation
 * in double is off by a few units in its last place at most, also when w was rounded or digits
 * were dropped. Rounded to float that is the right answer unless the double lies next to the middle
 * between two floats; only those, and exponents far out, are left to strtof.
 * Source of the exact powers: Clinger, "How to Read Floating Point Numbers Accurately", PLDI 1990.
 */
#include "data/decimal.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX      19    /* As many fit 64 bits. */
#define POWER_MAX       22    /* 10^22 is the last power of ten that is a double. */
#define EXPONENT_MAX    99999 /* Further digits of an exponent change nothing. */
#define SPARE_BITS      29    /* Bits of a double that a float has not. */
#define ULPS_OF_DOUBT   16    /* Four times what the operations can be off. */
#define MIDDLE_OF_SPARE (1ll << (SPARE_BITS - 1))

static const double powers[POWER_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                             1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                             1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') <= 9;
}

/* A number as it was read: digits, and where the point is. */
struct scan {
    uint64_t w;
    int n_digits; /* In w, leading zeros not counted. */
    int exponent;
};

/* Digits from `at` on; `step` is what each of them does to the exponent (behind the point: -1). */
static inline const char *scan_digits(struct scan *scan, const char *at, int step)
{
    for (; is_digit(*at); at++) {
        if (scan->n_digits < DIGITS_MAX) {
            scan->w = scan->w * 10 + (uint64_t)(*at - '0');
            scan->n_digits += scan->w != 0;
            scan->exponent += step;
        } else {
            scan->exponent += step + 1; /* Dropped. */
        }
    }
    return at;
}

/* An exponent if one is there; an 'e' without digits is no part of the number. */
static const char *scan_exponent(struct scan *scan, const char *at)
{
    const char *from = at + 1;
    bool negative = *from == '-';
    from += negative || *from == '+';
    if (!is_digit(*from)) {
        return at;
    }
    int exponent = 0;
    for (; is_digit(*from); from++) {
        exponent = exponent < EXPONENT_MAX ? exponent * 10 + (*from - '0') : exponent;
    }
    scan->exponent += negative ? -exponent : exponent;
    return from;
}

/* The locale "C" is a constant of the C library: nothing is loaded or allocated. */
static PS_COLD float read_slowly(const char *text)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", NULL);
    float value = strtof_l(text, NULL, plain);
    freelocale(plain);
    return value;
}

/* The nearest float, if the few units that `value` may be off cannot change it. */
static inline bool round_surely(double value, float *ret)
{
    if (!(value >= (double)FLT_MIN && value <= (double)FLT_MAX)) {
        return false;
    }
    int64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    int64_t from_middle = (bits & ((1ll << SPARE_BITS) - 1)) - MIDDLE_OF_SPARE;
    *ret = (float)value;
    return from_middle > ULPS_OF_DOUBT || from_middle < -ULPS_OF_DOUBT;
}

static bool convert(const struct scan *scan, float *ret)
{
    if (scan->w == 0) {
        *ret = 0.0f;
        return true;
    }
    int e = scan->exponent;
    if (e == 0 && scan->w <= 1u << FLT_MANT_DIG) {
        *ret = (float)scan->w;
        return true;
    }
    if (e < -POWER_MAX || e > POWER_MAX) {
        return false;
    }
    double w = (double)scan->w;
    return round_surely(e < 0 ? w / powers[-e] : w * powers[e], ret);
}

const char *ps_decimal_f32(const char *text, float *ret)
{
    const char *at = text;
    bool negative = *at == '-';
    at += negative || *at == '+';
    struct scan scan = {0};
    const char *first = at;
    at = scan_digits(&scan, at, 0);
    bool any = at != first;
    if (*at == '.') {
        const char *behind = scan_digits(&scan, at + 1, -1);
        any = any || behind != at + 1;
        at = behind;
    }
    if (!any) {
        return NULL;
    }
    if ((*at | 0x20) == 'e') {
        at = scan_exponent(&scan, at);
    }
    float value = 0.0f;
    if (!convert(&scan, &value)) {
        value = read_slowly(first);
    }
    *ret = negative ? -value : value;
    return at;
}

const char *ps_decimal_u64(const char *text, uint64_t *ret, bool *ret_fits)
{
    const char *at = text;
    uint64_t value = 0;
    bool wraps = false;
    for (; is_digit(*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (at - text >= DIGITS_MAX) {
            wraps |= __builtin_mul_overflow(value, 10u, &value);
            wraps |= __builtin_add_overflow(value, digit, &value);
        } else {
            value = value * 10 + digit;
        }
    }
    *ret = value;
    *ret_fits = !wraps;
    return at != text ? at : NULL;
}

bool ps_decimal_whole(const char *text, size_t n_bytes, float *ret)
{
    float value = 0.0f;
    const char *behind = n_bytes > 0 ? ps_decimal_f32(text, &value) : NULL;
    if (behind == NULL || behind != text + n_bytes) {
        return false;
    }
    *ret = value;
    return true;
}
