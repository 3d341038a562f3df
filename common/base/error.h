#ifndef PS_COMMON_BASE_ERROR_H
#define PS_COMMON_BASE_ERROR_H
/*
 * base/error.h — the words that go with a status.
 *
 * The status travels as the return value; the message, when somebody wants one, in a caller-owned
 * struct ps_error. Nothing here allocates, locks or uses thread-local storage, so an error can
 * cross threads with the request it belongs to.
 */
#include <ps/types.h> /* struct ps_error */

#include "base/attr.h"

/** Record `status` with a message and return it. With `err` NULL only the words are lost. */
enum ps_status ps_fail(struct ps_error *err, enum ps_status status, const char *fmt, ...)
    PS_PRINTF(3, 4);

/** Put "context: " before the message already in `err` and return `status` unchanged. */
enum ps_status ps_wrap(struct ps_error *err, enum ps_status status, const char *fmt, ...)
    PS_PRINTF(3, 4);

#endif
