#ifndef PS_TOOLS_RUN_SCREEN_H
#define PS_TOOLS_RUN_SCREEN_H
/*
 * run_screen.h — standard error of ps-run: log lines of many processes and one line of progress.
 *
 * On a terminal the progress line is rewritten in place and log lines scroll above it; elsewhere it
 * is printed as a plain line every PS_SCREEN_PLAIN_MS. One thread.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

#define PS_SCREEN_PLAIN_MS 2000u

struct run_screen {
    bool terminal;
    bool line_shown; /* The cursor stands behind a progress line. */
    uint64_t next_plain_ms;
};

void run_screen_init(struct run_screen *screen);

/** One line of somebody: "[worker 2] text". */
void run_screen_from(struct run_screen *screen, const char *name, const char *text);

/** One line of ps-run itself. */
void run_screen_say(struct run_screen *screen, const char *fmt, ...) PS_PRINTF(2, 3);

/** The progress line as of `now_ms`; elsewhere than on a terminal only now and then. */
void run_screen_progress(struct run_screen *screen, const char *line, uint64_t now_ms);

/** Leave the last progress line where it is. */
void run_screen_end(struct run_screen *screen);

#endif
