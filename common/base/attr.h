#ifndef PS_COMMON_BASE_ATTR_H
#define PS_COMMON_BASE_ATTR_H
/*
 * base/attr.h — attributes and the three macros that every file may need. Pure, no state.
 */
#include <stddef.h>

#include <ps/types.h> /* PS_MUST_CHECK */

#define PS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define PS_COLD              __attribute__((cold))
#define PS_UNUSED            __attribute__((unused))

#define PS_ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/** The struct of `type` whose member `member` lies at `ptr`. `ptr` must not be NULL. */
#define PS_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
