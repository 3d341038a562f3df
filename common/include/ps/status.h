#ifndef PS_STATUS_H
#define PS_STATUS_H
/*
 * ps/status.h — the one vocabulary of failure, shared by server, worker, tools and users.
 *
 * A status says what the caller may DO (retry, fix the input, give up); the words for people are
 * in struct ps_error. Numbers are on the wire: never reuse or renumber one.
 */
#include <stdbool.h>

/** What the shared library exports; everything else in it is its own. */
#define PS_API __attribute__((visibility("default")))

/* clang-format off */
/*    name             wire  gRPC  retry   text for people                                  */
#define PS_STATUS_MAP(X)                                                                     \
    X(OK,                 0,    0, false,  "success")                                        \
    X(ERR_INVALID,        1,    3, false,  "request is malformed or out of range")           \
    X(ERR_NOT_FOUND,      2,    5, false,  "no such table, session or lease")                \
    X(ERR_NOT_PRIMARY,    3,   14, true,   "this server does not own the slot")              \
    X(ERR_BUSY,           4,    8, true,   "a bound is reached, slow down")                  \
    X(ERR_TIMEOUT,        5,    4, true,   "deadline passed")                                \
    X(ERR_UNAVAIL,        6,   14, true,   "peer cannot be reached")                         \
    X(ERR_CORRUPT,        7,   15, false,  "checksum or format check failed")                \
    X(ERR_IO,             8,   13, false,  "file system said no")                            \
    X(ERR_NOMEM,          9,    8, true,   "memory budget exhausted")                        \
    X(ERR_CANCELED,      10,    1, false,  "canceled by the caller or by shutdown")          \
    X(ERR_FENCED,        11,    9, false,  "the session is closed; join anew")               \
    X(ERR_NOT_YET,       12,   14, true,   "the staleness bound does not allow it yet")      \
    X(ERR_LATE,          13,    9, false,  "the step is closed; repeat the unit later")      \
    X(ERR_EXISTS,        14,    6, false,  "already defined otherwise")                      \
    X(ERR_DENIED,        15,    7, false,  "the role does not allow it")                     \
    X(ERR_UNSUPPORTED,   16,   12, false,  "not known to this peer")                         \
    X(ERR_LOST,          17,   15, false,  "data or cluster is lost")                        \
    X(ERR_DIVERGED,      18,   11, false,  "training diverged")                              \
    X(ERR_INTERNAL,      19,   13, false,  "internal error")                                 \
    X(ERR_NO_SPACE,      20,    8, true,   "the disk is full")
/* clang-format on */

enum ps_status {
#define X(name, wire, grpc, retry, text) PS_##name = (wire),
    PS_STATUS_MAP(X)
#undef X
};

#ifdef __cplusplus
extern "C" {
#endif

/** Static text for a status; "unknown status" for a number this build does not know. */
PS_API const char *ps_status_text(enum ps_status status);

/** True when the same request may succeed later without being changed. */
PS_API bool ps_status_retryable(enum ps_status status);

/** The gRPC status code (RFC-less, grpc/status.h numbering) that carries this status. */
PS_API int ps_status_grpc(enum ps_status status);

/** The status for a wire number; PS_ERR_INTERNAL for one this build does not know. */
PS_API enum ps_status ps_status_from_wire(unsigned wire);

#ifdef __cplusplus
}
#endif

#endif
