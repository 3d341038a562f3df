#ifndef PS_COMMON_BASE_ASSERT_H
#define PS_COMMON_BASE_ASSERT_H
/*
 * base/assert.h — three strengths of "this cannot happen".
 *
 *   PS_STATIC_ASSERT   checked by the compiler: relations between limits, sizes of structs.
 *   PS_ASSERT          checked in every build, release too: cheap, guards state machines.
 *   PS_DEBUG_ASSERT    checked in debug, test and sanitizer builds: per element, in hot loops.
 *
 * They are for our own mistakes. Bytes from a peer, a file or a user are checked with an `if` and
 * answered with a status; a remote party must never be able to reach an assertion.
 */
#include "base/attr.h"

_Noreturn PS_COLD void ps_assert_failed(const char *expr, const char *file, int line);

#define PS_ASSERT(expr) ((expr) ? (void)0 : ps_assert_failed(#expr, __FILE__, __LINE__))

#ifdef PS_DEBUG
#    define PS_DEBUG_ASSERT(expr) PS_ASSERT(expr)
#else
#    define PS_DEBUG_ASSERT(expr) ((void)sizeof(expr))
#endif

#define PS_UNREACHABLE(why) ps_assert_failed("unreachable: " why, __FILE__, __LINE__)

#define PS_STATIC_ASSERT(expr, why) _Static_assert(expr, why)

/** Logical implication, so that `if a then b` reads as one assertion. */
#define PS_IMPLIES(a, b) (!(a) || (b))

#endif
