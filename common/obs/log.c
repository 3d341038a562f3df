/* log.c — see log.h. A line is put together on the stack and leaves with one write(2). */
#include "obs/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <unistd.h>

#include "base/assert.h"
#include "base/limits.h"
#include "os/clock.h"

#define NAME_BYTES (PS_NAME_BYTES_MAX + 1)
#define TIME_BYTES 40

const char *const ps_log_level_words[] = {
    [PS_LOG_NONE] = "none", [PS_LOG_ERROR] = "error", [PS_LOG_WARN] = "warn",
    [PS_LOG_INFO] = "info", [PS_LOG_DEBUG] = "debug", NULL,
};

/* The one global of the project: every part logs, none can be handed a logger by every caller. */
static struct {
    _Atomic int level;
    void (*write)(void *arg, const char *line); /* NULL: standard error. */
    void *arg;
    char name[NAME_BYTES];
} logger = {.level = PS_LOG_INFO};

void ps_log_level_set(enum ps_log_level level)
{
    PS_ASSERT(level <= PS_LOG_DEBUG);
    atomic_store_explicit(&logger.level, (int)level, memory_order_relaxed);
}

bool ps_log_on(enum ps_log_level level)
{
    return level != PS_LOG_NONE &&
           (int)level <= atomic_load_explicit(&logger.level, memory_order_relaxed);
}

void ps_log_name_set(const char *name)
{
    /* A user's word, which may be too long: whoever uses it for more refuses it. */
    (void)snprintf(logger.name, sizeof(logger.name), "%s", name);
}

void ps_log_to(void (*write)(void *arg, const char *line), void *arg)
{
    logger.write = write;
    logger.arg = arg;
}

/* 2026-03-01T09:30:00.125Z */
static void time_text(uint64_t wall_ms, char *text, size_t n_bytes)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm parts = {0};
    (void)gmtime_r(&seconds, &parts);
    size_t used = strftime(text, n_bytes, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(text + used, n_bytes - used, ".%03uZ", (unsigned)(wall_ms % 1000));
}

/* The bytes that a formatting call put into a buffer with `n_room` bytes. */
static size_t kept(int n_wanted, size_t n_room)
{
    if (n_wanted < 0) {
        return 0;
    }
    return (size_t)n_wanted < n_room ? (size_t)n_wanted : n_room - 1;
}

static size_t head(char *line, size_t n_bytes, enum ps_log_level level, const char *event)
{
    char when[TIME_BYTES];
    time_text(ps_clock_wall_ms(), when, sizeof(when));
    bool named = logger.name[0] != '\0';
    int n = snprintf(line, n_bytes, "ts=%s level=%s%s%s event=%s", when, ps_log_level_words[level],
                     named ? " at=" : "", logger.name, event);
    return kept(n, n_bytes);
}

/* UTF-8 passes; what could end or repaint a line does not. */
static void tame(char *line, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
}

/* Finish and write a line of `used` bytes in a buffer of PS_LOG_LINE_BYTES_MAX. */
static void emit(char *line, size_t used)
{
    tame(line, used);
    if (logger.write != NULL) {
        line[used] = '\0';
        logger.write(logger.arg, line);
        return;
    }
    line[used] = '\n';
    size_t n_done = 0;
    while (n_done < used + 1) {
        ssize_t n = write(STDERR_FILENO, line + n_done, used + 1 - n_done);
        if (n < 0 && errno != EINTR) {
            return; /* Nobody reads the log; there is no better place to say so. */
        }
        n_done += n > 0 ? (size_t)n : 0;
    }
}

void ps_log(enum ps_log_level level, const char *event, const char *fmt, ...)
{
    if (!ps_log_on(level)) {
        return;
    }
    int errno_before = errno; /* Logging about a failure must not change what failed. */
    char line[PS_LOG_LINE_BYTES_MAX];
    size_t used = head(line, sizeof(line) - 1, level, event);
    line[used++] = ' ';
    size_t n_room = sizeof(line) - used;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line + used, n_room, fmt, args);
    va_end(args);
    used += kept(n, n_room);
    if (n > 0 && (size_t)n >= n_room) {
        memset(line + used - 3, '.', 3);
    }
    emit(line, used);
    errno = errno_before;
}

void ps_log_plain(enum ps_log_level level, const char *event)
{
    if (!ps_log_on(level)) {
        return;
    }
    int errno_before = errno;
    char line[PS_LOG_LINE_BYTES_MAX];
    emit(line, head(line, sizeof(line), level, event));
    errno = errno_before;
}
