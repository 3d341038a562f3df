/* ledger_history.c — see ledger.h: what happened, line by line. */
#include <inttypes.h>
#include <stdarg.h>
#include <time.h>

#include "load/ledger.h"

uint64_t ledger_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool ledger_history_open(struct ledger_history *history, const char *path)
{
    history->file = fopen(path, "ae");
    return history->file != NULL && pthread_mutex_init(&history->lock, NULL) == 0;
}

void ledger_history_close(struct ledger_history *history)
{
    (void)fclose(history->file);
    (void)pthread_mutex_destroy(&history->lock);
}

/* The time is read under the lock: lines stand in its order. A line that the kernel has is there
 * even if this process is killed next. */
void ledger_say(struct ledger_history *history, uint32_t client, const char *text, ...)
{
    va_list args;
    va_start(args, text);
    (void)pthread_mutex_lock(&history->lock);
    (void)fprintf(history->file, "{\"t\":%" PRIu64 ",\"c\":%u,", ledger_now_ns(), client);
    (void)vfprintf(history->file, text, args);
    (void)fputs("}\n", history->file);
    (void)fflush(history->file);
    (void)pthread_mutex_unlock(&history->lock);
    va_end(args);
}
