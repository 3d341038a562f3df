/* late_commit.c — see late_commit.h. */
#include "lib/late_commit.h"

#include <stddef.h>

#include "base/list.h"

static struct late_commit *late_of(struct ps_committer *committer)
{
    return PS_CONTAINER_OF(committer, struct late_commit, base);
}

static bool room(struct ps_committer *committer, uint64_t n_bytes)
{
    (void)n_bytes;
    return !late_of(committer)->full;
}

static void wake(struct late_commit *late)
{
    if (late->exec != NULL && !late->awake && !late->stopped && late->n_waiting > 0) {
        late->awake = true;
        ps_exec_post(late->exec, &late->mail);
    }
}

static bool append(struct ps_committer *committer, struct ps_commit_entry *entry)
{
    struct late_commit *late = late_of(committer);
    entry->next = NULL;
    entry->lsn = ++late->n_lsn;
    *late->last = entry;
    late->last = &entry->next;
    late->n_waiting++;
    wake(late);
    return false;
}

/* As a log would: every byte is read when it is written. */
static void read_payload(struct late_commit *late, const struct ps_record *record)
{
    if (record->kind != PS_RECORD_PUSH && record->kind != PS_RECORD_STAGE) {
        return;
    }
    struct ps_cursor c = record->push.payload;
    const uint8_t *bytes = NULL;
    for (size_t n = 0; (n = ps_cursor_run(&c, SIZE_MAX, &bytes)) > 0;) {
        for (size_t i = 0; i < n; i++) {
            late->sum += bytes[i];
        }
    }
    for (uint32_t i = 0; i < record->push.n_parts; i++) {
        late->sum += record->push.parts[i].n_bytes;
    }
}

uint32_t late_commit_some(struct late_commit *late, uint32_t n)
{
    uint32_t n_done = 0;
    while (n_done < n && late->first != NULL && !late->stopped) {
        struct ps_commit_entry *entry = late->first;
        struct ps_commit_sink *sink = entry->sink;
        uint64_t ticket = entry->ticket;
        read_payload(late, &entry->record);
        if (late->seen != NULL) {
            late->seen(late->arg, &entry->record);
        }
        late->first = entry->next;
        late->last = late->first == NULL ? &late->first : late->last;
        late->n_waiting--;
        n_done++;
        ps_commit_tell(sink, ticket); /* The entry is the lane's again. */
    }
    return n_done;
}

static void run_timer(struct ps_timer *timer)
{
    struct late_commit *late = PS_CONTAINER_OF(timer, struct late_commit, timer);
    late->awake = false;
    uint32_t n = 1 + (uint32_t)ps_rng_below(&late->rng, late->n_waiting + 1);
    (void)late_commit_some(late, n); /* Often all, often not. */
    wake(late);
}

static void run_mail(struct ps_mail *mail)
{
    struct late_commit *late = PS_CONTAINER_OF(mail, struct late_commit, mail);
    ps_timer_start(late->exec, &late->timer, ps_rng_below(&late->rng, late->max_ms + 1));
}

void late_commit_init(struct late_commit *late)
{
    static const struct ps_committer_ops ops = {.room = room, .append = append};
    *late = (struct late_commit){.base = {.ops = &ops}};
    late->last = &late->first;
}

void late_commit_by_chance(struct late_commit *late, struct ps_exec *exec, uint64_t seed,
                           uint32_t max_ms)
{
    late->exec = exec;
    late->rng = ps_rng_from(seed);
    late->max_ms = max_ms;
    late->mail.run = run_mail;
    ps_timer_init(&late->timer, run_timer);
}
