#ifndef PS_COMMON_OBS_LOG_H
#define PS_COMMON_OBS_LOG_H
/*
 * obs/log.h — one line per event, to standard error or a function, in logfmt:
 *
 *   ts=2026-03-01T09:30:00.125Z level=info at=server-0 event=member.joined session=3 kind=worker
 *
 * Event names are `<noun>.<what happened>`; fields are key=value, strings in double quotes. Log
 * where an error is handled, not where it arises. Any thread; a line is one write(2), so lines of
 * several processes do not mix. Bytes that would break a line (controls, newlines) become '?'; a
 * line that is too long ends in "...". This is the only global state of the project.
 */
#include <stdbool.h>

#include "base/attr.h"

#define PS_LOG_LINE_BYTES_MAX 1024 /* Below PIPE_BUF, so that a write to a pipe is atomic. */

enum ps_log_level {
    PS_LOG_NONE, /* As a threshold only: nothing is written. */
    PS_LOG_ERROR,
    PS_LOG_WARN,
    PS_LOG_INFO,
    PS_LOG_DEBUG,
};

/** "none", "error", ... and a final NULL, in the order of enum ps_log_level: for an ENUM row. */
extern const char *const ps_log_level_words[];

/** Write events up to this level. Preset: PS_LOG_INFO. Any thread. */
void ps_log_level_set(enum ps_log_level level);

/** Whether an event of `level` would be written: guard for fields that are costly to make. */
bool ps_log_on(enum ps_log_level level);

/** Name this process in every line, as "server-0" (cut after 63 bytes); before threads start. */
void ps_log_name_set(const char *name);

/**
 * Hand lines to `write(arg, line)`, without their newline, instead of standard error; NULL: to
 * standard error again. From any thread. Set before threads start.
 */
void ps_log_to(void (*write)(void *arg, const char *line), void *arg);

/** Write one event with fields: ps_log(PS_LOG_INFO, "lease.lent", "lease=%u session=%u", a, b). */
void ps_log(enum ps_log_level level, const char *event, const char *fmt, ...) PS_PRINTF(3, 4);

/** Write one event without fields. */
void ps_log_plain(enum ps_log_level level, const char *event);

#endif
