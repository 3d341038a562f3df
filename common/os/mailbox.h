#ifndef PS_COMMON_OS_MAILBOX_H
#define PS_COMMON_OS_MAILBOX_H
/*
 * os/mailbox.h — many threads post, one owner takes everything at once.
 *
 * Intrusive and unbounded: the struct ps_mail is part of what it is about, so that posting cannot
 * fail; whoever makes the things that are posted bounds their number. Mail of one poster is taken
 * in the order in which it was posted. A short lock, and a signal only when the owner sleeps:
 * under load a post costs one lock and no system call.
 */
#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>

#include "port/exec.h"

struct ps_mailbox {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct ps_mail *first; /* FIFO, linked by `next`. */
    struct ps_mail **last; /* Where the next one is hung. */
    bool sleeping;         /* The owner waits for `filled`. */
};

void ps_mailbox_init(struct ps_mailbox *mailbox);

/** Nobody posts any more. What was not taken is forgotten. */
void ps_mailbox_deinit(struct ps_mailbox *mailbox);

/** Any thread. @return true when the mailbox was empty before: the owner may need a nudge */
bool ps_mailbox_post(struct ps_mailbox *mailbox, struct ps_mail *mail);

/** Take all mail, oldest first, linked by `next`; NULL when there is none. Owner only. */
struct ps_mail *ps_mailbox_take(struct ps_mailbox *mailbox);

/**
 * As ps_mailbox_take, but sleep until there is mail or the monotonic clock (ps_clock_ms) has
 * reached `until_ms`; UINT64_MAX: no end. NULL only at the end. Owner only.
 */
struct ps_mail *ps_mailbox_wait(struct ps_mailbox *mailbox, uint64_t until_ms);

/** Run a chain that was taken. Each struct is its handler's as soon as it runs. */
void ps_mailbox_run(struct ps_mail *first);

#endif
