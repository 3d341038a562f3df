/* error.c — one line of words beside a status, cut at the end rather than lost. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

/* Words of users and peers may be in it: one line stays one, and no terminal is told anything. */
static void keep_one_line(struct ps_error *err)
{
    for (char *at = err->text; *at != '\0'; at++) {
        unsigned char c = (unsigned char)*at;
        if (c < ' ' || c == 0x7f) {
            *at = '?';
        }
    }
}

enum ps_status ps_fail(struct ps_error *err, enum ps_status status, const char *fmt, ...)
{
    PS_ASSERT(status != PS_OK);
    if (err != NULL) {
        va_list args;
        va_start(args, fmt);
        err->status = status;
        (void)vsnprintf(err->text, sizeof(err->text), fmt, args);
        va_end(args);
        keep_one_line(err);
    }
    return status;
}

/* Write `text` at offset `used`; what does not fit is cut. */
static void append(struct ps_error *err, size_t used, const char *text)
{
    if (used + 1 < sizeof(err->text)) {
        size_t n_room = sizeof(err->text) - 1 - used;
        size_t n = strnlen(text, n_room);
        memcpy(err->text + used, text, n);
        err->text[used + n] = '\0';
    }
}

enum ps_status ps_wrap(struct ps_error *err, enum ps_status status, const char *fmt, ...)
{
    PS_ASSERT(status != PS_OK);
    if (err != NULL) {
        char inner[PS_ERROR_TEXT_BYTES];
        memcpy(inner, err->text, sizeof(inner));
        va_list args;
        va_start(args, fmt);
        int n = vsnprintf(err->text, sizeof(err->text), fmt, args);
        va_end(args);
        size_t used = n < 0 ? 0 : (size_t)n;
        append(err, used, ": ");
        append(err, used + 2, inner);
        keep_one_line(err);
        err->status = status;
    }
    return status;
}
