/* number.c — see number.h. */
#include "conf/number.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A unit of bytes or time, and how many of the smallest one it is. */
struct unit {
    const char *text;
    uint64_t factor;
};

static const struct unit byte_units[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1000},
    {"KB", 1000},
    {"MB", 1000ull * 1000},
    {"GB", 1000ull * 1000 * 1000},
    {"TB", 1000ull * 1000 * 1000 * 1000},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
};

static const struct unit time_units[] = {
    {"ms", 1},
    {"s", 1000},
    {"m", 60ull * 1000},
    {"h", 3600ull * 1000},
};

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits(const char *text)
{
    size_t n = 0;
    while (digit(text[n])) {
        n++;
    }
    return n;
}

/* The value of `n` digits; false when it needs more than 64 bits. */
static bool digits_u64(const char *text, size_t n, uint64_t *ret)
{
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value)) {
            return false;
        }
    }
    *ret = value;
    return true;
}

bool ps_number_u64(const char *text, uint64_t *ret)
{
    size_t n = digits(text);
    return n > 0 && text[n] == '\0' && digits_u64(text, n, ret);
}

/* Whether `text` is a decimal number and nothing else: strtod alone takes hex, "inf" and blanks. */
static bool decimal(const char *text)
{
    const char *at = text;
    if (*at == '+' || *at == '-') {
        at++;
    }
    size_t n_whole = digits(at);
    at += n_whole;
    size_t n_part = 0;
    if (*at == '.') {
        n_part = digits(at + 1);
        at += 1 + n_part;
    }
    if (n_whole + n_part == 0) {
        return false;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        if (*at == '+' || *at == '-') {
            at++;
        }
        size_t n_power = digits(at);
        if (n_power == 0) {
            return false;
        }
        at += n_power;
    }
    return *at == '\0';
}

bool ps_number_f64(const char *text, double *ret)
{
    if (!decimal(text)) {
        return false;
    }
    /* The plain strtod would want a comma after a setlocale() somewhere in a library. glibc's "C"
     * locale is static, so there is nothing to free. */
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        return false;
    }
    double value = strtod_l(text, NULL, c_locale);
    if (!isfinite(value)) {
        return false;
    }
    *ret = value;
    return true;
}

/* A number with up to six digits of fraction and a unit, without floating point; what is less than
 * the smallest unit is cut off. */
static bool quantity(const char *text, const struct unit *units, size_t n_units, uint64_t *ret)
{
    size_t n_whole = digits(text);
    uint64_t whole = 0;
    if (n_whole == 0 || !digits_u64(text, n_whole, &whole)) {
        return false;
    }
    const char *at = text + n_whole;
    uint64_t part = 0;
    uint64_t scale = 1;
    if (*at == '.') {
        size_t n_part = digits(at + 1);
        if (n_part == 0 || n_part > 6 || !digits_u64(at + 1, n_part, &part)) {
            return false;
        }
        for (size_t i = 0; i < n_part; i++) {
            scale *= 10;
        }
        at += 1 + n_part;
    }
    for (size_t i = 0; i < n_units; i++) {
        if (strcmp(at, units[i].text) != 0) {
            continue;
        }
        uint64_t value = 0;
        /* part < 10^6 and factor <= 2^40, so the product fits. */
        uint64_t rest = part * units[i].factor / scale;
        if (__builtin_mul_overflow(whole, units[i].factor, &value) ||
            __builtin_add_overflow(value, rest, &value)) {
            return false;
        }
        *ret = value;
        return true;
    }
    return false;
}

bool ps_number_bytes(const char *text, uint64_t *ret)
{
    return quantity(text, byte_units, PS_ARRAY_LEN(byte_units), ret);
}

bool ps_number_duration_ms(const char *text, uint64_t *ret)
{
    if (strcmp(text, "0") == 0) {
        *ret = 0;
        return true;
    }
    return quantity(text, time_units, PS_ARRAY_LEN(time_units), ret);
}

bool ps_number_list_u32(const char *text, uint32_t *values, size_t n_max, uint32_t *ret_n)
{
    uint32_t n = 0;
    for (const char *at = text; *at != '\0';) {
        size_t n_digits = digits(at);
        uint64_t value = 0;
        if (n == n_max || n_digits == 0 || !digits_u64(at, n_digits, &value) ||
            value > UINT32_MAX) {
            return false;
        }
        values[n++] = (uint32_t)value;
        at += n_digits;
        if (*at == ',' && at[1] != '\0') {
            at++;
        } else if (*at != '\0') {
            return false;
        }
    }
    *ret_n = n;
    return true;
}
