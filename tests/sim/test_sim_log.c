/*
 * test_sim_log.c — the log alone over simulated disks: machines lose power and processes die in the
 * middle of anything, over many seeds. What was committed is read again, in its order, once;
 * nothing is read that was not appended.
 *
 *   PS_SIM_LOG_SEEDS=20000     how many; preset 1000
 *   PS_TEST_SEED=17            the first
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "log/recover.h"
#include "log/wal.h"
#include "obs/log.h"
#include "sim/sim_disk.h"
#include "sim/sim_exec.h"

#define N_LANES     2u
#define N_SLOTS     3u   /* Of each lane. */
#define N_ENTRIES   400u /* Of a slot, over all lives. */
#define N_LIVES     6u
#define N_BYTES_MAX 3000u
#define DIR         "data/log"

struct log_entry {
    struct ps_commit_entry commit;
    struct ps_part part;
    struct ps_slice slice;
    uint8_t bytes[N_BYTES_MAX];
};

/** What the test knows of a slot's line. */
struct line {
    uint64_t ids[N_ENTRIES]; /* [position - 1] */
    uint64_t lsns[N_ENTRIES];
    uint64_t at_ns[N_ENTRIES]; /* Committed. */
    uint32_t n_appended;
    uint32_t n_committed; /* As the lane was told. */
};

struct log_lane {
    struct rig *rig;
    uint32_t index;
    struct sim_exec exec;
    struct ps_commit_sink sink;
    struct ps_timer timer;
    struct log_entry *pending[N_SLOTS * N_ENTRIES]; /* By ticket - 1. */
    uint64_t ticket;
    uint64_t heard;
};

/** One process. */
struct log_life {
    struct sim_node *node;
    struct ps_disk *disk;
    struct ps_mem mem;
    struct sim_exec exec;
    struct log_lane lanes[N_LANES];
    struct ps_wal *wal;
    struct ps_wal_done done;
    bool failed;
    bool stopped;
};

struct rig {
    struct sim_world *world;
    struct sim_disk disk;
    struct ps_rng rng;
    struct ps_wal_plant plant;
    bool plant_middle;
    bool sync;
    bool damage;
    bool damaged;
    bool at_once; /* By more than one bit. */
    uint64_t died_ns;
    uint64_t segment_bytes;
    const char *failpoint;
    uint32_t failpoint_at;
    struct line lines[N_LANES * N_SLOTS];
    struct log_life lives[N_LIVES];
    struct log_life *life;
    uint64_t next_id;
    uint64_t trim_lsn;
    uint64_t n_read;
    uint32_t n_deaths;
    bool power;
    char broken[512];
};

static void broken(struct rig *rig, const char *what, uint64_t a, uint64_t b, uint64_t c)
{
    if (rig->broken[0] == '\0') {
        (void)snprintf(rig->broken, sizeof(rig->broken),
                       "%.300s (%" PRIu64 ", %" PRIu64 ", %" PRIu64 ")", what, a, b, c);
    }
}

static void die(struct rig *rig, bool power)
{
    struct sim_node *node = rig->life->node;
    if (node->crashed) {
        return;
    }
    node->crashed = node->paused = true;
    sim_trace(rig->world, node, "dies", power ? "power" : "kill", 0, 0);
    rig->failpoint = NULL;
    rig->n_deaths++;
    rig->died_ns = rig->world->now_ns;
    rig->at_once = rig->at_once || (power && !rig->sync); /* More than it promises. */
    rig->damaged = rig->damaged || rig->at_once;
    sim_medium_crash(&rig->disk.medium, node, power);
}

static void die_in_disk(void *arg, struct sim_node *node PS_UNUSED)
{
    struct rig *rig = arg;
    die(rig, rig->power);
}

#ifdef PS_PLANT
static void met(void *arg, const char *name)
{
    struct rig *rig = arg;
    if (rig->failpoint == NULL || strcmp(name, rig->failpoint) != 0 || rig->life->node->crashed) {
        return;
    }
    rig->failpoint_at--;
    if (rig->failpoint_at == 0) {
        die(rig, rig->power);
    }
}
#endif

/* ---- Lanes --------------------------------------------------------------------------------- */

static void fill(struct rig *rig, struct log_entry *entry, uint64_t id)
{
    size_t n_bytes = ps_rng_below(&rig->rng, 8) == 0 ? ps_rng_below(&rig->rng, N_BYTES_MAX)
                                                     : ps_rng_below(&rig->rng, 64);
    n_bytes = n_bytes / 4 * 4;
    for (size_t i = 0; i < n_bytes; i++) {
        entry->bytes[i] = (uint8_t)ps_mix64(id + i);
    }
    entry->slice = (struct ps_slice){.data = entry->bytes, .n_bytes = n_bytes};
    entry->part = (struct ps_part){.table = 1, .n_bytes = (uint32_t)n_bytes};
    entry->commit.record.push = (struct ps_record_push){
        .session = 1,
        .step = id,
        .item = {.stream = 1, .sequence = id, .n_fragments = 1},
        .rows = 1,
        .rate = 1.0f,
        .scale = 1.0f,
        .parts = &entry->part,
        .n_parts = 1,
        .payload = ps_cursor_over(&entry->slice, 1),
    };
}

static void append(struct log_lane *lane)
{
    struct rig *rig = lane->rig;
    uint32_t slot = lane->index * N_SLOTS + (uint32_t)ps_rng_below(&rig->rng, N_SLOTS);
    struct line *line = &rig->lines[slot];
    struct ps_committer *committer = ps_wal_committer(rig->life->wal);
    if (line->n_appended == N_ENTRIES || !ps_commit_room(committer, N_BYTES_MAX)) {
        return;
    }
    struct log_entry *entry = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*entry));
    ck_assert_ptr_nonnull(entry);
    uint64_t id = ++rig->next_id;
    line->ids[line->n_appended++] = id;
    entry->commit.record = (struct ps_record){
        .kind = PS_RECORD_PUSH, .slot = slot, .epoch = 1, .position = line->n_appended};
    if (ps_rng_below(&rig->rng, 3) == 0) {
        entry->commit.record.kind = PS_RECORD_FINISH;
        entry->commit.record.finish = (struct ps_record_finish){.version = id};
    } else {
        fill(rig, entry, id);
    }
    entry->commit.ticket = ++lane->ticket;
    entry->commit.sink = &lane->sink;
    lane->pending[lane->ticket - 1] = entry;
    ck_assert(!ps_commit_append(committer, &entry->commit));
}

static void run_committed(struct ps_mail *mail)
{
    struct ps_commit_sink *sink = PS_CONTAINER_OF(mail, struct ps_commit_sink, mail);
    struct log_lane *lane = PS_CONTAINER_OF(sink, struct log_lane, sink);
    uint64_t ticket = ps_commit_listen(sink);
    for (; lane->heard < ticket; lane->heard++) {
        struct log_entry *entry = lane->pending[lane->heard];
        const struct ps_record *record = &entry->commit.record;
        struct line *line = &lane->rig->lines[record->slot];
        if (record->position != line->n_committed + 1) {
            broken(lane->rig, "committed out of order", record->slot, record->position,
                   line->n_committed);
        }
        line->n_committed = (uint32_t)record->position;
        line->lsns[record->position - 1] = entry->commit.lsn;
        line->at_ns[record->position - 1] = lane->rig->world->now_ns;
        lane->pending[lane->heard] = NULL;
        ps_mem_free(entry);
    }
}

static void run_lane(struct ps_timer *timer)
{
    struct log_lane *lane = PS_CONTAINER_OF(timer, struct log_lane, timer);
    uint64_t n = ps_rng_below(&lane->rig->rng, 4);
    for (uint64_t i = 0; i < n && !lane->rig->life->stopped; i++) {
        append(lane);
    }
    ps_timer_start(&lane->exec.base, timer, ps_rng_below(&lane->rig->rng, 40));
}

/* ---- Lives --------------------------------------------------------------------------------- */

static void wal_failed(void *arg, const struct ps_error *err PS_UNUSED)
{
    struct rig *rig = arg;
    rig->life->failed = true;
}

/* Positions that this recovery has come to, per slot; 0: none. */
struct reading {
    struct rig *rig;
    uint64_t last[N_LANES * N_SLOTS];
    uint64_t next_lsn;
};

static bool same_payload(const struct ps_record_push *push, uint64_t id)
{
    uint8_t bytes[N_BYTES_MAX];
    struct ps_cursor cursor = push->payload;
    size_t n = cursor.n_left;
    if (n > sizeof(bytes) || push->n_parts != 1 || push->parts[0].n_bytes != n) {
        return false;
    }
    ps_cursor_copy(&cursor, bytes, n);
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != (uint8_t)ps_mix64(id + i)) {
            return false;
        }
    }
    return push->step == id && push->item.sequence == id;
}

static enum ps_status read_record(void *arg, uint64_t lsn, const struct ps_record *record,
                                  struct ps_error *err PS_UNUSED)
{
    struct reading *reading = arg;
    struct rig *rig = reading->rig;
    if (record->slot >= N_LANES * N_SLOTS) {
        broken(rig, "a slot from nowhere", record->slot, lsn, 0);
        return PS_OK;
    }
    struct line *line = &rig->lines[record->slot];
    uint64_t *last = &reading->last[record->slot];
    if (*last != 0 && record->position != *last + 1) {
        broken(rig, "a position is missing or doubled", record->slot, record->position, *last);
    }
    if (lsn < reading->next_lsn) { /* Notes of the log have numbers, too. */
        broken(rig, "lsns do not rise", lsn, reading->next_lsn, 0);
    }
    reading->next_lsn = lsn + 1;
    *last = record->position;
    if (record->position == 0 || record->position > line->n_appended) {
        broken(rig, "a record that nobody appended", record->slot, record->position, lsn);
        return PS_OK;
    }
    uint64_t id = line->ids[record->position - 1];
    bool right = record->kind == PS_RECORD_PUSH
                     ? same_payload(&record->push, id)
                     : record->kind == PS_RECORD_FINISH && record->finish.version == id;
    uint64_t known = record->position <= line->n_committed ? line->lsns[record->position - 1] : lsn;
    if (!right || known != lsn) {
        broken(rig, "another record than was appended", record->slot, record->position, lsn);
    }
    line->lsns[record->position - 1] = lsn;
    rig->n_read++;
    return PS_OK;
}

/*
 * One bit that rots in the last batch of all has no witness: it looks like a torn end. What is
 * older has one: later records, or the note that is written when the log has nothing to do.
 */
static bool may_lose(const struct rig *rig, const struct line *line, uint64_t last)
{
    return rig->damaged && (rig->at_once || line->at_ns[last] + SIM_S / 2 > rig->died_ns);
}

static void check_read(struct rig *rig, const struct reading *reading)
{
    for (uint32_t slot = 0; slot < N_LANES * N_SLOTS; slot++) {
        struct line *line = &rig->lines[slot];
        uint64_t last = reading->last[slot];
        bool trimmed =
            last == 0 && line->n_committed > 0 && line->lsns[line->n_committed - 1] < rig->trim_lsn;
        if (last < line->n_committed && !trimmed && !may_lose(rig, line, last)) {
            broken(rig, "committed and lost", slot, line->n_committed, last);
        }
        if (trimmed) {
            last = line->n_committed;
        }
        line->n_appended = (uint32_t)last;
        line->n_committed = (uint32_t)last;
    }
}

static void start_lanes(struct rig *rig, struct log_life *life)
{
    for (uint32_t i = 0; i < N_LANES; i++) {
        struct log_lane *lane = &life->lanes[i];
        lane->rig = rig;
        lane->index = i;
        sim_exec_init(&lane->exec, life->node);
        lane->sink.exec = &lane->exec.base;
        lane->sink.mail.run = run_committed;
        ps_timer_init(&lane->timer, run_lane);
        ps_timer_start(&lane->exec.base, &lane->timer, 0);
    }
}

/* False: the log is refused, as it may be when it is damaged, or the process died on the way. */
static bool begin_life(struct rig *rig, struct log_life *life)
{
    struct reading reading = {.rig = rig};
    struct ps_wal_recovered recovered;
    struct ps_error err = {0};
    rig->life = life;
    life->node = sim_node_create(rig->world, "log");
    life->disk = sim_disk_attach(&rig->disk, life->node);
    ps_mem_init(&life->mem);
    sim_exec_init(&life->exec, life->node);
    struct ps_wal_recovery recovery = {
        .disk = life->disk,
        .dir = DIR,
        .mem = &life->mem,
        .from_lsn = rig->trim_lsn,
        .repair = true,
        .plant_middle_truncated = rig->plant_middle,
        .plant_reorder_equal_lsn = rig->plant.reorder_equal_lsn,
    };
    struct ps_wal_visitor visitor = {.record = read_record, .arg = &reading};
    enum ps_status status = ps_wal_recover(&recovery, &visitor, &recovered, &err);
    if (life->node->crashed) {
        return false; /* What it has read counts for nothing. */
    }
    if (status != PS_OK) {
        bool may = (status == PS_ERR_CORRUPT && rig->damaged) ||
                   ((status == PS_ERR_IO || status == PS_ERR_NO_SPACE) && rig->disk.n_failed > 0);
        if (!may) {
            broken(rig, err.text, (uint64_t)status, 0, 0);
        }
        return false;
    }
    check_read(rig, &reading);
    struct ps_wal_options options = {
        .disk = life->disk,
        .dir = DIR,
        .exec = &life->exec.base,
        .mem = &life->mem,
        .sync = rig->sync,
        .segment_bytes = rig->segment_bytes,
        .salt = ps_rng_next(&rig->rng),
        .failed = wal_failed,
        .arg = rig,
        .plant = rig->plant,
    };
    status = ps_wal_open(&options, &recovered.end, &life->wal, &err);
    if (status != PS_OK && !life->node->crashed && rig->disk.n_failed == 0) {
        broken(rig, err.text, (uint64_t)status, 0, 0);
    }
    if (status == PS_OK) {
        start_lanes(rig, life);
    }
    return status == PS_OK && !life->node->crashed;
}

static void run_stopped(struct ps_mail *mail)
{
    struct ps_wal_done *done = PS_CONTAINER_OF(mail, struct ps_wal_done, mail);
    struct log_life *life = PS_CONTAINER_OF(done, struct log_life, done);
    life->stopped = true;
}

/* The dead and the living end alike: the dead one's disk does nothing. */
static void end_life(struct rig *rig, struct log_life *life)
{
    if (life->wal == NULL) {
        return;
    }
    rig->life = life;
    life->node->paused = false;
    for (uint32_t i = 0; i < N_LANES; i++) {
        (void)sim_exec_stop(&life->lanes[i].exec);
    }
    (void)sim_exec_stop(&life->exec);
    ps_wal_destroy(life->wal);
    for (uint32_t i = 0; i < N_LANES; i++) {
        for (uint64_t t = life->lanes[i].heard; t < life->lanes[i].ticket; t++) {
            ps_mem_free(life->lanes[i].pending[t]);
        }
    }
}

/* Its last moments: in order, or killed, or with the whole machine. */
static void finish_life(struct rig *rig, struct log_life *life)
{
    if (life->node->crashed) {
        return;
    }
    if (!life->failed && ps_rng_below(&rig->rng, 3) == 0) {
        rig->disk.faults = (struct sim_disk_faults){0};
        rig->failpoint = NULL;
        life->done =
            (struct ps_wal_done){.mail.run = run_stopped, .exec = &life->lanes[0].exec.base};
        life->stopped = true; /* Nobody appends any more. */
        ps_wal_stop(life->wal, &life->done);
        life->stopped = true;
        sim_world_run_until(rig->world, rig->world->now_ns + SIM_S);
    }
    die(rig, rig->power);
}

static const char *const failpoints[] = {"log.before_write", "log.after_write", "log.before_sync",
                                         "log.after_sync",   "log.rotate",      "log.before_trim"};

static void draw_faults(struct rig *rig)
{
    struct sim_disk_faults *faults = &rig->disk.faults;
    *faults = (struct sim_disk_faults){0};
    rig->power = (rig->sync || rig->damage) && ps_rng_below(&rig->rng, 2) == 0;
    rig->failpoint = NULL;
    switch (ps_rng_below(&rig->rng, 6)) {
    case 0: faults->crash_in = 1 + ps_rng_below(&rig->rng, 60); break;
    case 1:
    case 2:
        rig->failpoint = failpoints[ps_rng_below(&rig->rng, PS_ARRAY_LEN(failpoints))];
        rig->failpoint_at = 1 + (uint32_t)ps_rng_below(&rig->rng, 12);
        break;
    case 3:
        faults->write_fails_pm = (uint32_t)ps_rng_below(&rig->rng, 30);
        /* A log that was written and not synced may be gone after that. */
        faults->sync_fails_pm = rig->sync ? (uint32_t)ps_rng_below(&rig->rng, 30) : 0;
        break;
    case 4:
        faults->n_bytes_room = sim_disk_used(&rig->disk) + ps_rng_below(&rig->rng, 60000);
        break;
    default: break;
    }
    if (rig->damage && ps_rng_below(&rig->rng, 2) == 0) {
        faults->astray_pm = 30;
        rig->damaged = rig->at_once = true;
    }
}

/* Something that all slots have behind them may go. */
static void trim(struct rig *rig)
{
    uint64_t lsn = UINT64_MAX;
    for (uint32_t slot = 0; slot < N_LANES * N_SLOTS; slot++) {
        const struct line *line = &rig->lines[slot];
        uint64_t done = line->n_committed > 0 ? line->lsns[line->n_committed - 1] : 0;
        lsn = done < lsn ? done : lsn;
    }
    if (lsn > rig->trim_lsn && ps_rng_below(&rig->rng, 3) == 0) {
        rig->trim_lsn = lsn;
        ps_wal_trim(rig->life->wal, lsn);
    }
}

static void live(struct rig *rig, struct log_life *life)
{
    bool began = begin_life(rig, life);
    uint64_t until_ns = rig->world->now_ns + ps_rng_below(&rig->rng, 3 * SIM_S);
    while (began && rig->world->now_ns < until_ns && !life->node->crashed && !life->failed &&
           rig->broken[0] == '\0') {
        sim_world_run_until(rig->world, rig->world->now_ns + 100 * SIM_MS);
        if (rig->disk.faults.n_bytes_room > 0 && ps_rng_below(&rig->rng, 8) == 0) {
            rig->disk.faults.n_bytes_room = 0; /* Somebody made room. */
        }
        if (!life->node->crashed) {
            trim(rig);
        }
    }
    if (began) {
        finish_life(rig, life);
    }
    die(rig, false);
    if (rig->damage && ps_rng_below(&rig->rng, 4) == 0) {
        rig->damaged = sim_disk_rot(&rig->disk, DIR) || rig->damaged;
    }
}

static void rig_init(struct rig *rig, uint64_t seed)
{
    *rig = (struct rig){.world = sim_world_create(seed), .rng = ps_rng_from(ps_mix64(seed))};
    rig->world->verbose = test_count("PS_SIM_TRACE", 0) > 0;
    sim_disk_init(&rig->disk, rig->world);
    rig->disk.crash = die_in_disk;
    rig->disk.arg = rig;
    rig->sync = ps_rng_below(&rig->rng, 2) == 0;
    rig->damage = ps_rng_below(&rig->rng, 4) == 0;
    rig->segment_bytes = ps_rng_below(&rig->rng, 2) == 0 ? 16384 : 65536;
    struct ps_disk *disk = sim_disk_attach(&rig->disk, NULL);
    ck_assert_int_eq(ps_disk_make_dir(disk, DIR, NULL), PS_OK);
}

struct log_planted {
    const char *name;
    struct ps_wal_plant plant;
    bool middle;
};

/* True when a promise was broken. */
static bool run_log(uint64_t seed, const struct log_planted *planted, bool loud)
{
    struct rig *rig = ps_mem_alloc(NULL, PS_MEM_OTHER, sizeof(*rig));
    ck_assert_ptr_nonnull(rig);
    rig_init(rig, seed);
    if (planted != NULL) {
        rig->plant = planted->plant;
        rig->plant_middle = planted->middle;
    }
#ifdef PS_PLANT
    struct ps_failpoint_hook hook = {.met = met, .arg = rig};
    ps_failpoint_hook(&hook);
#endif
    uint32_t n_lives = 2 + (uint32_t)ps_rng_below(&rig->rng, N_LIVES - 2);
    for (uint32_t i = 0; i + 1 < n_lives && rig->broken[0] == '\0'; i++) {
        draw_faults(rig);
        live(rig, &rig->lives[i]);
    }
    rig->disk.faults = (struct sim_disk_faults){0};
    rig->failpoint = NULL;
    if (rig->broken[0] == '\0') {
        live(rig, &rig->lives[n_lives - 1]);
    }
    bool found = rig->broken[0] != '\0';
    if (found && loud) {
        (void)fprintf(stderr, "PS_TEST_SEED=%" PRIu64 ": %s\n  %s%s%s, %u deaths\n", seed,
                      rig->broken, rig->sync ? "fsync" : "log", rig->damage ? ", damage" : "",
                      rig->damaged ? " done" : "", rig->n_deaths);
    }
#ifdef PS_PLANT
    ps_failpoint_hook(NULL);
#endif
    if (!found) {
        for (uint32_t i = 0; i < n_lives; i++) {
            end_life(rig, &rig->lives[i]);
        }
        sim_disk_deinit(&rig->disk);
        sim_world_destroy(rig->world);
        ps_mem_free(rig);
    }
    return found;
}

START_TEST(what_was_committed_is_read_again_and_nothing_else)
{
    uint64_t n_seeds = test_count("PS_SIM_LOG_SEEDS", 1000);
    for (uint64_t i = 0; i < n_seeds; i++) {
        ck_assert(!run_log(test_seed() + i, NULL, true));
    }
}
END_TEST

#ifdef PS_PLANT
static const struct log_planted log_plants[] = {
    {.name = "ack before sync", .plant.ack_before_sync = true},
    {.name = "dir not synced", .plant.dir_not_synced = true},
    {.name = "reorder equal lsn", .plant.reorder_equal_lsn = true},
    {.name = "middle truncated", .middle = true},
};

START_TEST(a_bug_planted_in_the_log_is_found)
{
    const struct log_planted *planted = &log_plants[_i];
    uint64_t n = 0;
    while (n < 1000 && !run_log(test_seed() + n, planted, false)) {
        n++;
    }
    ck_assert_msg(n < 1000, "'%s' was not found", planted->name);
    (void)printf("log: planted '%s' was found by seed number %" PRIu64 "\n", planted->name, n + 1);
}
END_TEST
#endif

static Suite *suite_sim_log(void)
{
    ps_log_level_set(test_count("PS_SIM_TRACE", 0) > 0 ? PS_LOG_DEBUG : PS_LOG_NONE);
    Suite *suite = suite_create("sim_log");
    TCase *tcase = tcase_create("log");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, what_was_committed_is_read_again_and_nothing_else);
#ifdef PS_PLANT
    tcase_add_loop_test(tcase, a_bug_planted_in_the_log_is_found, 0, (int)PS_ARRAY_LEN(log_plants));
#endif
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(suite_sim_log)
