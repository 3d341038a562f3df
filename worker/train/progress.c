/* progress.c — see progress.h. */
#include "train/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/attr.h"

#define ETA_S_MAX 359999.0 /* 99:59:59; beyond it nobody waits. */

/* Text that grows in the caller's line and is cut off, never overrun. */
struct text {
    char *bytes;
    size_t n_used;
};

PS_PRINTF(2, 3) static void add(struct text *text, const char *fmt, ...);

static void add(struct text *text, const char *fmt, ...)
{
    size_t n_room = PS_PROGRESS_LINE_BYTES - text->n_used;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text->bytes + text->n_used, n_room, fmt, args);
    va_end(args);
    PS_ASSERT(n >= 0);
    text->n_used += (size_t)n < n_room ? (size_t)n : n_room - 1;
}

static void add_rate(struct text *text, double per_s)
{
    if (per_s >= 1e6) {
        add(text, "  %.2fM examples/s", per_s * 1e-6);
    } else if (per_s >= 1e3) {
        add(text, "  %.1fk examples/s", per_s * 1e-3);
    } else {
        add(text, "  %.0f examples/s", per_s);
    }
}

static void add_time_left(struct text *text, double seconds)
{
    uint64_t s = (uint64_t)(seconds < ETA_S_MAX ? seconds + 0.5 : ETA_S_MAX);
    if (s >= 3600) {
        add(text, "  %" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " left", s / 3600, s / 60 % 60, s % 60);
    } else {
        add(text, "  %" PRIu64 ":%02" PRIu64 " left", s / 60, s % 60);
    }
}

size_t ps_progress_line(const struct ps_progress *progress, char line[PS_PROGRESS_LINE_BYTES])
{
    struct text text = {.bytes = line};
    uint64_t n_epochs = progress->n_epochs;
    uint64_t epoch = progress->epoch < n_epochs ? progress->epoch + 1 : n_epochs;
    bool rate_known = progress->examples_per_s > 0.0 && isfinite(progress->examples_per_s);
    line[0] = '\0';
    add(&text, "epoch %" PRIu64 "/%" PRIu64, epoch, n_epochs);
    if (progress->rows_total > 0) {
        double share = (double)progress->rows_done / (double)progress->rows_total;
        add(&text, "  %2.0f%%", floor(100.0 * (share < 1.0 ? share : 1.0)));
    }
    if (rate_known) {
        add_rate(&text, progress->examples_per_s);
    }
    if (!isnan(progress->loss)) {
        add(&text, "  loss %.4f", progress->loss);
    }
    if (!isnan(progress->staleness)) {
        add(&text, "  staleness %.1f", progress->staleness);
    }
    if (rate_known && progress->rows_done < progress->rows_total) {
        uint64_t n_left = progress->rows_total - progress->rows_done;
        add_time_left(&text, (double)n_left / progress->examples_per_s);
    }
    return text.n_used;
}
