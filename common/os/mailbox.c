/* mailbox.c — see mailbox.h. */
#include "os/mailbox.h"

#include <errno.h>
#include <time.h>

#include "base/assert.h"

void ps_mailbox_init(struct ps_mailbox *mailbox)
{
    pthread_condattr_t attr;
    int failed = pthread_condattr_init(&attr);
    failed |= pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    failed |= pthread_cond_init(&mailbox->filled, &attr);
    failed |= pthread_condattr_destroy(&attr);
    failed |= pthread_mutex_init(&mailbox->lock, NULL);
    PS_ASSERT(failed == 0); /* glibc: cannot fail with these arguments. */
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
    mailbox->sleeping = false;
}

void ps_mailbox_deinit(struct ps_mailbox *mailbox)
{
    (void)pthread_cond_destroy(&mailbox->filled);
    (void)pthread_mutex_destroy(&mailbox->lock);
}

static void lock(struct ps_mailbox *mailbox)
{
    int failed = pthread_mutex_lock(&mailbox->lock);
    PS_ASSERT(failed == 0);
}

static void unlock(struct ps_mailbox *mailbox)
{
    int failed = pthread_mutex_unlock(&mailbox->lock);
    PS_ASSERT(failed == 0);
}

bool ps_mailbox_post(struct ps_mailbox *mailbox, struct ps_mail *mail)
{
    mail->next = NULL;
    lock(mailbox);
    bool was_empty = mailbox->first == NULL;
    *mailbox->last = mail;
    mailbox->last = &mail->next;
    if (mailbox->sleeping) {
        mailbox->sleeping = false;
        /* Under the lock: afterwards the owner may already have freed the mailbox. */
        (void)pthread_cond_signal(&mailbox->filled);
    }
    unlock(mailbox);
    return was_empty;
}

static struct ps_mail *take_locked(struct ps_mailbox *mailbox)
{
    struct ps_mail *first = mailbox->first;
    mailbox->first = NULL;
    mailbox->last = &mailbox->first;
    return first;
}

struct ps_mail *ps_mailbox_take(struct ps_mailbox *mailbox)
{
    lock(mailbox);
    struct ps_mail *first = take_locked(mailbox);
    unlock(mailbox);
    return first;
}

/* False when the time has come. */
static bool sleep_locked(struct ps_mailbox *mailbox, uint64_t until_ms)
{
    if (until_ms == UINT64_MAX) {
        (void)pthread_cond_wait(&mailbox->filled, &mailbox->lock);
        return true;
    }
    struct timespec until = {
        .tv_sec = (time_t)(until_ms / 1000),
        .tv_nsec = (long)(until_ms % 1000) * 1000000,
    };
    return pthread_cond_timedwait(&mailbox->filled, &mailbox->lock, &until) != ETIMEDOUT;
}

struct ps_mail *ps_mailbox_wait(struct ps_mailbox *mailbox, uint64_t until_ms)
{
    lock(mailbox);
    bool early = true;
    while (mailbox->first == NULL && early) {
        mailbox->sleeping = true;
        early = sleep_locked(mailbox, until_ms);
    }
    mailbox->sleeping = false;
    struct ps_mail *first = take_locked(mailbox);
    unlock(mailbox);
    return first;
}

void ps_mailbox_run(struct ps_mail *first)
{
    while (first != NULL) {
        struct ps_mail *mail = first;
        first = mail->next; /* Read before the handler may free it. */
        mail->run(mail);
    }
}
