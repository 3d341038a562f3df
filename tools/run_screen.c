/* run_screen.c — see run_screen.h. */
#include "run_screen.h"

#include <stdarg.h>
#include <stdio.h>

#include <unistd.h>

#define CLEAR_LINE "\r\033[K"

void run_screen_init(struct run_screen *screen)
{
    *screen = (struct run_screen){.terminal = isatty(STDERR_FILENO) == 1};
}

static void clear(struct run_screen *screen)
{
    if (screen->line_shown) {
        (void)fputs(CLEAR_LINE, stderr);
        screen->line_shown = false;
    }
}

void run_screen_from(struct run_screen *screen, const char *name, const char *text)
{
    clear(screen);
    (void)fprintf(stderr, "[%s] %s\n", name, text);
}

void run_screen_say(struct run_screen *screen, const char *fmt, ...)
{
    clear(screen);
    (void)fputs("ps-run: ", stderr);
    va_list args;
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

void run_screen_progress(struct run_screen *screen, const char *line, uint64_t now_ms)
{
    if (screen->terminal) {
        (void)fprintf(stderr, "%s%s", CLEAR_LINE, line);
        (void)fflush(stderr);
        screen->line_shown = true;
    } else if (now_ms >= screen->next_plain_ms) {
        (void)fprintf(stderr, "%s\n", line);
        screen->next_plain_ms = now_ms + PS_SCREEN_PLAIN_MS;
    }
}

void run_screen_end(struct run_screen *screen)
{
    if (screen->line_shown) {
        (void)fputc('\n', stderr);
        screen->line_shown = false;
    }
}
