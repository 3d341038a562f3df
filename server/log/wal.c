/*
 * wal.c — see wal.h. Mail in, batches to the open segment, lanes told.
 *
 *   entry mail ──> pending ──flush mail──> batch: heads + borrowed payloads ──write, sync──> told
 *
 * The flush mail is posted with the first entry that arrives, so it runs behind all that arrived
 * with it: the busier the disk, the larger the batches.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/failpoint.h"
#include "base/limits.h"
#include "log/wal_impl.h"
#include "num/checksum.h"
#include "obs/log.h"

static struct ps_wal *wal_of(struct ps_committer *committer)
{
    return PS_CONTAINER_OF(committer, struct ps_wal, base);
}

/* An entry of the log's own; NULL: of a lane. */
static struct ps_wal_other *other_of(struct ps_commit_entry *entry)
{
    return entry->sink != NULL ? NULL : PS_CONTAINER_OF(entry, struct ps_wal_other, entry);
}

/* ---- Those who wait -------------------------------------------------------------------------- */

static void tell_other(struct ps_wal_other *other, enum ps_status status)
{
    struct ps_wal_done *done = other->done;
    done->lsn = other->entry.lsn;
    ps_mem_free(other);
    done->status = status;
    ps_exec_post(done->exec, &done->mail);
}

/* No lane hears anything any more; who has asked for something else is told. */
static void refuse_others(struct ps_wal *wal, enum ps_status status)
{
    struct ps_commit_entry **at = &wal->first;
    while (*at != NULL) {
        struct ps_wal_other *other = other_of(*at);
        if (other == NULL) {
            at = &(*at)->next;
        } else {
            *at = other->entry.next;
            tell_other(other, status);
        }
    }
    wal->last = at;
}

static void fail(struct ps_wal *wal, const struct ps_error *err)
{
    wal->failed = true;
    atomic_store_explicit(&wal->full, true, memory_order_relaxed);
    refuse_others(wal, PS_ERR_IO);
    if (wal->options.failed != NULL) {
        wal->options.failed(wal->options.arg, err);
    }
}

static void become_full(struct ps_wal *wal, const struct ps_error *err)
{
    if (!atomic_exchange_explicit(&wal->full, true, memory_order_relaxed)) {
        ps_log(PS_LOG_WARN, "log.full", "why=\"%s\" pushes=refused", err->text);
    }
    ps_timer_start(wal->options.exec, &wal->retry, PS_WAL_RETRY_MS);
}

static void become_free(struct ps_wal *wal)
{
    if (atomic_exchange_explicit(&wal->full, false, memory_order_relaxed)) {
        ps_log(PS_LOG_INFO, "log.space", "dir=%s pushes=taken", wal->dir);
    }
}

/* True when all is well. */
static bool cope(struct ps_wal *wal, enum ps_status status, const struct ps_error *err)
{
    if (status == PS_ERR_NO_SPACE) {
        become_full(wal, err);
    } else if (status != PS_OK) {
        fail(wal, err);
    }
    return status == PS_OK;
}

/* ---- A batch --------------------------------------------------------------------------------- */

/* Consecutive entries from wal->first on. */
struct batch {
    uint32_t n;
    uint64_t n_bytes;  /* In the segment. */
    size_t n_heads;    /* Bytes that are not borrowed. */
    size_t n_slices;   /* At most. */
    uint64_t last_lsn; /* Set by encode. */
};

static size_t count_runs(struct ps_cursor payload)
{
    const uint8_t *run = NULL;
    size_t n = 0;
    while (ps_cursor_run(&payload, SIZE_MAX, &run) > 0) {
        n++;
    }
    return n;
}

static uint64_t entry_bytes(struct ps_commit_entry *entry)
{
    const struct ps_wal_other *other = other_of(entry);
    uint64_t n_body =
        other != NULL ? other->n_body
                      : ps_wal_fixed_bytes(&entry->record) + ps_wal_payload_bytes(&entry->record);
    PS_ASSERT(n_body <= PS_WAL_BODY_BYTES_MAX);
    return ps_wal_record_bytes(n_body);
}

static void add(struct batch *batch, struct ps_commit_entry *entry, uint64_t n_bytes)
{
    batch->n++;
    batch->n_bytes += n_bytes;
    batch->n_heads += PS_WAL_HEAD_BYTES;
    batch->n_slices += 3; /* Head, bytes, padding. */
    if (other_of(entry) == NULL) {
        batch->n_heads += ps_wal_fixed_bytes(&entry->record);
        if (ps_wal_payload_bytes(&entry->record) > 0) {
            batch->n_slices += count_runs(entry->record.push.payload);
        }
    }
}

/* As much as fits the segment; none when the first one does not. */
static struct batch choose(struct ps_wal *wal)
{
    struct batch batch = {0};
    uint64_t n_left = ps_wal_left(wal);
    for (struct ps_commit_entry *entry = wal->first; entry != NULL; entry = entry->next) {
        uint64_t n_bytes = entry_bytes(entry);
        if (batch.n_bytes + n_bytes > n_left ||
            (batch.n > 0 && batch.n_bytes + n_bytes > PS_WAL_BATCH_BYTES)) {
            break;
        }
        add(&batch, entry, n_bytes);
    }
    return batch;
}

/* Room of at least `n_bytes`, whose content may go. There is no way back for what has to be logged,
 * so it goes beyond the budget. */
static void *make_room(struct ps_wal *wal, void *room, size_t *n_room, size_t n_bytes)
{
    if (*n_room >= n_bytes) {
        return room;
    }
    ps_mem_free(room);
    *n_room = n_bytes < 4096 ? 4096 : n_bytes + n_bytes / 2;
    room = ps_mem_alloc_beyond(wal->options.mem, PS_MEM_OTHER, *n_room);
    PS_ASSERT(room != NULL); /* The machine itself is out of memory. */
    return room;
}

/* Where the next head and the next slice of a batch go. */
struct encoder {
    uint8_t *to;
    struct ps_slice *slice;
};

static void put_slice(struct encoder *out, const uint8_t *data, size_t n_bytes)
{
    if (n_bytes > 0) {
        *out->slice++ = (struct ps_slice){.data = data, .n_bytes = n_bytes};
    }
}

static void put_padding(struct encoder *out, size_t n_body)
{
    static const uint8_t zeros[PS_WAL_ALIGN];
    put_slice(out, zeros, (PS_WAL_ALIGN - n_body % PS_WAL_ALIGN) % PS_WAL_ALIGN);
}

static void encode_record(const struct ps_wal *wal, const struct ps_record *record,
                          struct ps_wal_head *head, struct encoder *out)
{
    uint8_t *start = out->to;
    uint8_t *fixed = start + PS_WAL_HEAD_BYTES;
    size_t n_fixed = ps_wal_fixed_write(record, fixed);
    out->to = fixed + n_fixed;
    put_slice(out, start, PS_WAL_HEAD_BYTES + n_fixed);
    head->n_body = (uint32_t)n_fixed;
    if (ps_wal_payload_bytes(record) == 0) {
        head->body_sum = ps_checksum64(fixed, n_fixed, wal->files.salt);
    } else {
        struct ps_checksum_stream sum;
        struct ps_cursor payload = record->push.payload;
        const uint8_t *run = NULL;
        size_t n_run = 0;
        head->n_body += (uint32_t)payload.n_left;
        ps_checksum_init(&sum, wal->files.salt);
        ps_checksum_add(&sum, fixed, n_fixed);
        while ((n_run = ps_cursor_run(&payload, SIZE_MAX, &run)) > 0) {
            ps_checksum_add(&sum, run, n_run);
            put_slice(out, run, n_run);
        }
        head->body_sum = ps_checksum_of64(&sum);
    }
    put_padding(out, head->n_body);
    ps_wal_head_write(head, wal->files.salt, start);
}

static void encode_other(const struct ps_wal *wal, const struct ps_wal_other *other,
                         struct ps_wal_head *head, struct encoder *out)
{
    head->kind = other->kind;
    head->n_body = (uint32_t)other->n_body;
    head->body_sum = ps_checksum64(other->body, other->n_body, wal->files.salt);
    ps_wal_head_write(head, wal->files.salt, out->to);
    put_slice(out, out->to, PS_WAL_HEAD_BYTES);
    out->to += PS_WAL_HEAD_BYTES;
    put_slice(out, other->body, other->n_body);
    put_padding(out, other->n_body);
}

/* @return how many slices */
static size_t encode(struct ps_wal *wal, struct batch *batch)
{
    wal->heads = make_room(wal, wal->heads, &wal->n_heads_room, batch->n_heads);
    size_t n_room = wal->n_slices_room * sizeof(*wal->slices);
    wal->slices = make_room(wal, wal->slices, &n_room, batch->n_slices * sizeof(*wal->slices));
    wal->n_slices_room = n_room / sizeof(*wal->slices);
    struct encoder out = {.to = wal->heads, .slice = wal->slices};
    struct ps_commit_entry *entry = wal->first;
    uint64_t lsn = wal->next_lsn;
    for (uint32_t i = 0; i < batch->n; i++) {
        entry->lsn = wal->options.plant.reorder_equal_lsn ? wal->next_lsn : lsn;
        batch->last_lsn = entry->lsn;
        lsn++;
        struct ps_wal_head head = {
            .kind = PS_WAL_RECORD, .lsn = entry->lsn, .durable_upto = wal->durable};
        const struct ps_wal_other *other = other_of(entry);
        if (other == NULL) {
            encode_record(wal, &entry->record, &head, &out);
        } else {
            encode_other(wal, other, &head, &out);
        }
        entry = entry->next;
    }
    return (size_t)(out.slice - wal->slices);
}

static enum ps_status sync_open(struct ps_wal *wal, struct ps_error *err)
{
    uint64_t start_ns = ps_exec_now_ns(wal->options.exec);
    ps_failpoint("log.before_sync");
    enum ps_status status = ps_disk_file_sync(wal->files.open, err);
    ps_metric_observe(wal->options.metrics, PS_METRIC_log_sync_seconds,
                      ps_exec_now_ns(wal->options.exec) - start_ns);
    /* A failed sync is never tried again: the system may have dropped what it could not write. */
    return status == PS_ERR_NO_SPACE ? PS_ERR_IO : status;
}

/* Write slices behind the last record. */
static enum ps_status write_out(struct ps_wal *wal, const struct ps_slice *slices, size_t n_slices,
                                struct ps_error *err)
{
    ps_failpoint("log.before_write");
    enum ps_status status =
        ps_disk_file_write(wal->files.open, wal->files.at, slices, n_slices, err);
    if (status != PS_OK) {
        return status;
    }
    ps_failpoint("log.after_write");
    return PS_OK;
}

/* All of the batch are durable. Each entry is its lane's again as soon as the lane is told. */
static void tell(struct ps_wal *wal, const struct batch *batch)
{
    struct ps_commit_entry *entry = wal->first;
    for (uint32_t i = 0; i < batch->n; i++) {
        struct ps_commit_entry *next = entry->next;
        struct ps_wal_other *other = other_of(entry);
        if (other != NULL) {
            tell_other(other, PS_OK);
        } else if (i + 1 == batch->n || next->sink != entry->sink) {
            ps_commit_tell(entry->sink, entry->ticket);
        }
        entry = next;
    }
    wal->first = entry;
    if (entry == NULL) {
        wal->last = &wal->first;
    }
    atomic_store_explicit(&wal->reported, batch->last_lsn, memory_order_release);
}

static enum ps_status write_batch(struct ps_wal *wal, struct batch *batch, struct ps_error *err)
{
    size_t n_slices = encode(wal, batch);
    enum ps_status status = write_out(wal, wal->slices, n_slices, err);
    if (status != PS_OK) {
        return status;
    }
    uint32_t n = batch->n;
    if (wal->options.sync && wal->options.plant.ack_before_sync) {
        tell(wal, batch);
    }
    if (wal->options.sync) {
        status = sync_open(wal, err);
        if (status != PS_OK) {
            return status;
        }
        ps_failpoint("log.after_sync");
    }
    wal->noted = wal->durable > wal->noted ? wal->durable : wal->noted;
    wal->next_lsn = batch->last_lsn + 1;
    wal->durable = batch->last_lsn;
    wal->real = batch->last_lsn;
    wal->files.at += batch->n_bytes;
    ps_wal_files_grown(wal);
    ps_metric_add(wal->options.metrics, PS_METRIC_log_records_total, n);
    ps_metric_add(wal->options.metrics, PS_METRIC_log_bytes_total, batch->n_bytes);
    ps_metric_add(wal->options.metrics, PS_METRIC_log_batches_total, 1);
    if (!wal->options.sync || !wal->options.plant.ack_before_sync) {
        tell(wal, batch);
    }
    return PS_OK;
}

/* ---- Flushing -------------------------------------------------------------------------------- */

static void post_flush(struct ps_wal *wal)
{
    if (!wal->flush_posted && !wal->stopping && !wal->failed) {
        wal->flush_posted = true;
        ps_exec_post(wal->options.exec, &wal->flush_mail);
    }
}

/* One batch, or a new segment for it. False: there is no going on for now, or for ever. */
static bool flush_some(struct ps_wal *wal)
{
    struct ps_error err = {0};
    struct batch batch = choose(wal);
    if (batch.n == 0) {
        return cope(wal, ps_wal_rotate(wal, entry_bytes(wal->first), &err), &err);
    }
    return cope(wal, write_batch(wal, &batch, &err), &err);
}

static void run_flush(struct ps_mail *mail)
{
    struct ps_wal *wal = PS_CONTAINER_OF(mail, struct ps_wal, flush_mail);
    struct ps_error err = {0};
    wal->flush_posted = false;
    if (wal->failed || wal->stopping) {
        return;
    }
    if (wal->first != NULL && !flush_some(wal)) {
        return;
    }
    if (wal->first != NULL) {
        post_flush(wal);
    } else if (cope(wal, ps_wal_look_ahead(wal, &err), &err)) {
        become_free(wal);
    }
    ps_timer_start(wal->options.exec, &wal->idle, PS_WAL_IDLE_MS);
}

static void run_retry(struct ps_timer *timer)
{
    post_flush(PS_CONTAINER_OF(timer, struct ps_wal, retry));
}

/* Let the log itself say that its last records are durable: then damage of them is found. */
static enum ps_status write_note(struct ps_wal *wal, struct ps_error *err)
{
    if (wal->noted >= wal->real || ps_wal_left(wal) < PS_WAL_HEAD_BYTES) {
        return PS_OK; /* Without room for it the next segment will say so. */
    }
    uint8_t bytes[PS_WAL_HEAD_BYTES];
    struct ps_slice slice = {.data = bytes, .n_bytes = sizeof(bytes)};
    struct ps_wal_head head = {
        .kind = PS_WAL_NOTE,
        .lsn = wal->next_lsn,
        .durable_upto = wal->durable,
        .body_sum = ps_checksum64(NULL, 0, wal->files.salt),
    };
    ps_wal_head_write(&head, wal->files.salt, bytes);
    enum ps_status status = write_out(wal, &slice, 1, err);
    if (status == PS_OK && wal->options.sync) {
        status = sync_open(wal, err);
    }
    if (status == PS_OK) {
        wal->noted = wal->durable;
        wal->durable = wal->next_lsn++;
        wal->files.at += sizeof(bytes);
        ps_wal_files_grown(wal);
        atomic_store_explicit(&wal->reported, wal->durable, memory_order_release);
    }
    return status;
}

static void run_idle(struct ps_timer *timer)
{
    struct ps_wal *wal = PS_CONTAINER_OF(timer, struct ps_wal, idle);
    struct ps_error err = {0};
    if (wal->failed || wal->stopping || wal->first != NULL) {
        return;
    }
    enum ps_status status = write_note(wal, &err);
    if (status == PS_ERR_NO_SPACE) {
        ps_timer_start(wal->options.exec, &wal->idle, PS_WAL_IDLE_MS);
    } else if (status != PS_OK) {
        fail(wal, &err);
    }
}

/* ---- The committer --------------------------------------------------------------------------- */

static void take(struct ps_mail *mail)
{
    struct ps_commit_entry *entry = PS_CONTAINER_OF(mail, struct ps_commit_entry, mail);
    struct ps_wal *wal = wal_of(entry->committer);
    entry->next = NULL;
    *wal->last = entry;
    wal->last = &entry->next;
    if (wal->failed) {
        refuse_others(wal, PS_ERR_IO);
    }
    post_flush(wal);
}

static bool append(struct ps_committer *committer, struct ps_commit_entry *entry)
{
    entry->mail.run = take;
    ps_exec_post(wal_of(committer)->options.exec, &entry->mail);
    return false;
}

static bool room(struct ps_committer *committer, uint64_t n_bytes)
{
    (void)n_bytes; /* Room is made ahead of time for many. */
    return !atomic_load_explicit(&wal_of(committer)->full, memory_order_relaxed);
}

static const struct ps_committer_ops committer_ops = {.room = room, .append = append};

struct ps_committer *ps_wal_committer(struct ps_wal *wal)
{
    return &wal->base;
}

/* ---- What is no record of a slot ------------------------------------------------------------- */

/* NULL: there is no memory, and `done` knows. */
static struct ps_wal_other *other_create(struct ps_wal *wal, enum ps_wal_kind kind, size_t n_body,
                                         struct ps_wal_done *done)
{
    PS_ASSERT(n_body <= PS_WAL_BODY_BYTES_MAX);
    struct ps_wal_other *other =
        ps_mem_alloc(wal->options.mem, PS_MEM_OTHER, sizeof(*other) + n_body);
    if (other == NULL) {
        done->status = PS_ERR_NOMEM;
        ps_exec_post(done->exec, &done->mail);
        return NULL;
    }
    other->kind = kind;
    other->done = done;
    other->n_body = n_body;
    return other;
}

void ps_wal_table(struct ps_wal *wal, uint32_t number, const uint8_t *bytes, size_t n_bytes,
                  struct ps_wal_done *done)
{
    size_t n_body = PS_WAL_TABLE_FIXED_BYTES + n_bytes;
    struct ps_wal_other *other = other_create(wal, PS_WAL_TABLE, n_body, done);
    if (other != NULL) {
        ps_wal_table_write(number, other->body);
        if (n_bytes > 0) {
            memcpy(other->body + PS_WAL_TABLE_FIXED_BYTES, bytes, n_bytes);
        }
        (void)ps_commit_append(&wal->base, &other->entry); /* `done` says when. */
    }
}

void ps_wal_generation(struct ps_wal *wal, uint64_t generation, const char *dir, const char *cut,
                       struct ps_wal_done *done)
{
    size_t n_dir = strlen(dir) + 1;
    size_t n_cut = strlen(cut) + 1;
    PS_ASSERT(n_dir <= PS_WAL_PLACE_BYTES_MAX && n_cut <= PS_WAL_PLACE_BYTES_MAX);
    size_t n_body = PS_WAL_GENERATION_FIXED_BYTES + n_dir + n_cut;
    struct ps_wal_other *other = other_create(wal, PS_WAL_GENERATION, n_body, done);
    if (other != NULL) {
        ps_wal_generation_write(generation, dir, cut, other->body);
        memcpy(other->body + PS_WAL_GENERATION_FIXED_BYTES, dir, n_dir);
        memcpy(other->body + PS_WAL_GENERATION_FIXED_BYTES + n_dir, cut, n_cut);
        (void)ps_commit_append(&wal->base, &other->entry); /* `done` says when. */
    }
}

uint64_t ps_wal_reported(const struct ps_wal *wal)
{
    return atomic_load_explicit(&wal->reported, memory_order_acquire);
}

uint64_t ps_wal_bytes(const struct ps_wal *wal)
{
    return atomic_load_explicit(&wal->n_bytes, memory_order_relaxed);
}

/* ---- Trimming -------------------------------------------------------------------------------- */

static void run_trim(struct ps_mail *mail)
{
    struct ps_wal *wal = PS_CONTAINER_OF(mail, struct ps_wal, trim_mail);
    struct ps_error err = {0};
    (void)atomic_exchange_explicit(&wal->trim_posted, false, memory_order_acq_rel);
    uint64_t lsn = atomic_load_explicit(&wal->trim_lsn, memory_order_acquire);
    if (wal->failed || wal->stopping) {
        return;
    }
    enum ps_status status = ps_wal_files_trim(wal, lsn, &err);
    if (status == PS_ERR_NO_SPACE) { /* Taking away may need space, too; the next trim does it. */
        ps_log(PS_LOG_WARN, "log.not_trimmed", "why=\"%s\"", err.text);
    } else if (status != PS_OK) {
        fail(wal, &err);
    }
}

void ps_wal_trim(struct ps_wal *wal, uint64_t lsn)
{
    uint64_t before = atomic_load_explicit(&wal->trim_lsn, memory_order_relaxed);
    while (before < lsn &&
           !atomic_compare_exchange_weak_explicit(&wal->trim_lsn, &before, lsn,
                                                  memory_order_acq_rel, memory_order_relaxed)) {
    }
    if (!atomic_exchange_explicit(&wal->trim_posted, true, memory_order_acq_rel)) {
        ps_exec_post(wal->options.exec, &wal->trim_mail);
    }
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

/* What was posted to the executor before has run. */
static void run_bye(struct ps_mail *mail)
{
    struct ps_wal *wal = PS_CONTAINER_OF(mail, struct ps_wal, bye_mail);
    ps_exec_post(wal->stop_done->exec, &wal->stop_done->mail);
}

static enum ps_status finish(struct ps_wal *wal)
{
    struct ps_error err = {0};
    while (wal->first != NULL && !wal->failed && flush_some(wal)) {
    }
    if (!wal->failed && wal->first != NULL) {
        refuse_others(wal, PS_ERR_NO_SPACE);
        return PS_ERR_NO_SPACE;
    }
    enum ps_status status = wal->failed ? PS_ERR_IO : write_note(wal, &err);
    if (status == PS_OK || status == PS_ERR_NO_SPACE) { /* One witness less, nothing else. */
        status = sync_open(wal, &err);
    }
    if (status != PS_OK && !wal->failed) {
        fail(wal, &err);
    }
    return status;
}

static void run_stop(struct ps_mail *mail)
{
    struct ps_wal *wal = PS_CONTAINER_OF(mail, struct ps_wal, stop_mail);
    wal->stop_done->status = finish(wal);
    wal->stopping = true;
    ps_timer_stop(wal->options.exec, &wal->idle);
    ps_timer_stop(wal->options.exec, &wal->retry);
    ps_exec_post(wal->options.exec, &wal->bye_mail);
}

void ps_wal_stop(struct ps_wal *wal, struct ps_wal_done *done)
{
    wal->stop_done = done;
    ps_exec_post(wal->options.exec, &wal->stop_mail);
}

enum ps_status ps_wal_open(const struct ps_wal_options *options, const struct ps_wal_end *end,
                           struct ps_wal **ret, struct ps_error *err)
{
    struct ps_wal *wal = ps_mem_alloc(options->mem, PS_MEM_OTHER, sizeof(*wal));
    if (wal == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the log");
    }
    wal->base.ops = &committer_ops;
    wal->options = *options;
    if (wal->options.segment_bytes == 0) {
        wal->options.segment_bytes = PS_WAL_SEGMENT_BYTES;
    }
    wal->last = &wal->first;
    wal->next_lsn = end->next_lsn;
    wal->durable = end->next_lsn - 1;
    wal->noted = wal->durable;
    wal->real = wal->durable;
    atomic_store_explicit(&wal->reported, wal->durable, memory_order_relaxed);
    wal->flush_mail.run = run_flush;
    wal->trim_mail.run = run_trim;
    wal->stop_mail.run = run_stop;
    wal->bye_mail.run = run_bye;
    ps_timer_init(&wal->idle, run_idle);
    ps_timer_init(&wal->retry, run_retry);
    wal->dir = ps_mem_strdup(options->mem, PS_MEM_OTHER, options->dir);
    enum ps_status status = wal->dir == NULL ? ps_fail(err, PS_ERR_NOMEM, "no memory for the log")
                                             : ps_wal_files_open(wal, end, err);
    if (status != PS_OK) {
        ps_wal_destroy(wal);
        return status;
    }
    *ret = wal;
    return PS_OK;
}

void ps_wal_destroy(struct ps_wal *wal)
{
    if (wal == NULL) {
        return;
    }
    struct ps_commit_entry *entry = wal->first;
    while (entry != NULL) {
        struct ps_commit_entry *next = entry->next;
        ps_mem_free(other_of(entry));
        entry = next;
    }
    ps_wal_files_close(wal);
    ps_mem_free(wal->heads);
    ps_mem_free(wal->slices);
    ps_mem_free(wal->dir);
    ps_mem_free(wal);
}
