/* assert.c — the end of a process that found its own mistake. The only abort() of the tree. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void ps_assert_failed(const char *expr, const char *file, int line)
{
    (void)fprintf(stderr, "assertion failed: %s at %s:%d\n", expr, file, line);
    abort();
}
