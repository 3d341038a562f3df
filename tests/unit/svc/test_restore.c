/*
 * test_restore.c — cuts, logs and what comes of them: lanes made from a cut and the records behind
 * it hold what the first ones hold, bit for bit, whatever was in flight.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cluster/keys.h"
#include "lib/test_main.h"
#include "rig.h"
#include "slot/lane_impl.h"
#include "suites.h"
#include "twin.h"
#include "wire/keys.h"

#define ALL          15u
#define WIDTH        3u
#define ROW_SLOTS    4u /* Slots that get rows: 2, 3 (with blocks), 9, 20. */
#define KEYS_EACH    40u
#define CALLS_MAX    400u
#define UNITS_OF(id) (units[(id)-100])

static const uint32_t row_slots[ROW_SLOTS] = {2, 3, 9, 20};
static uint64_t keys[ROW_SLOTS][KEYS_EACH];
static uint32_t tables[2];
static struct ps_rng rng;
static struct fake_call *calls[CALLS_MAX];
static uint32_t n_calls;
static struct fake_call *reader;
static uint64_t units[8]; /* Of leases 100 to 107: the next one. */
static uint64_t min_clock;
static uint64_t n_lists;
static uint64_t n_finishes;
static uint64_t step; /* Aggregated: the open one. */

static uint64_t chance(uint64_t n)
{
    return ps_rng_below(&rng, n);
}

/* ---- A life by chance ------------------------------------------------------------------------ */

static void find_keys(void)
{
    uint32_t n[ROW_SLOTS] = {0};
    uint32_t n_left = ROW_SLOTS * KEYS_EACH;
    for (uint64_t key = 5; n_left > 0; key += UINT64_MAX / 50000) {
        uint32_t slot = ps_keys_slot(key, RIG_KEY_SEED);
        for (uint32_t i = 0; i < ROW_SLOTS; i++) {
            if (row_slots[i] == slot && n[i] < KEYS_EACH) {
                keys[i][n[i]++] = key;
                n_left--;
            }
        }
    }
}

static void open_life(uint64_t seed, uint32_t n_lanes)
{
    static const struct rig_rows old = {
        .optim = "adagrad", .width = WIDTH, .admit_after = 2, .expire_after = 2};
    static const struct rig_rows derived = {.optim = "ftrl", .width = 1, .zeros = true, .l1 = 0.1f};
    rng = ps_rng_from(seed);
    rig_open_late(n_lanes);
    tables[0] = rig_define_rows(&old);
    tables[1] = rig_define_rows(&derived);
    find_keys();
    n_calls = 0;
    reader = NULL;
    memset(units, 0, sizeof(units));
    min_clock = 0;
    n_lists = 1;
    n_finishes = 0;
    step = 0;
    rig.hold = true;
}

static void deliver(const uint8_t *rows, size_t n_row_bytes, enum ps_data_kind kind)
{
    static uint8_t bytes[RIG_MSG_BYTES + (64u << 10)];
    size_t n = rig_write(bytes) - n_row_bytes;
    if (n_row_bytes > 0) {
        memcpy(bytes + n, rows, n_row_bytes);
    }
    struct ps_slice slice = {.data = bytes, .n_bytes = n + n_row_bytes};
    ck_assert_uint_lt(n_calls, CALLS_MAX);
    calls[n_calls++] = rig_deliver_bytes(kind, &slice, 1);
    rig_pump();
}

/* Some keys of a slot and their gradients, behind what the request has. @return bytes at `to` */
static size_t add_rows(uint32_t at, uint32_t table, uint8_t *to)
{
    uint64_t some[KEYS_EACH];
    uint32_t n = 0;
    uint32_t width = table == tables[0] ? WIDTH : 1;
    for (uint32_t i = 0; i < KEYS_EACH; i++) {
        if (chance(4) == 0) {
            some[n++] = keys[at][i];
        }
    }
    if (n == 0) {
        some[n++] = keys[at][chance(KEYS_EACH)];
    }
    size_t n_key_bytes = ps_keys_write(some, n, to, KEYS_EACH * PS_KEY_BYTES_MAX);
    struct ps_share *share = &rig.request.push;
    share->parts[share->n_parts++] =
        (struct ps_part){.table = table,
                         .dtype = PS_DTYPE_F32,
                         .n_keys = n,
                         .n_key_bytes = (uint32_t)n_key_bytes,
                         .n_bytes = (uint32_t)(n_key_bytes + n * width * sizeof(float))};
    share->slots[share->n_slots - 1].n_parts++;
    for (uint32_t i = 0; i < n * width; i++) {
        float grad = ps_rng_unit(ps_rng_next(&rng)) - 0.5f;
        memcpy(to + n_key_bytes + i * sizeof(grad), &grad, sizeof(grad));
    }
    return n_key_bytes + n * width * sizeof(float);
}

/* A unit of a lease or of a session's own: the next, or one of before. */
static void choose_unit(uint64_t session)
{
    uint64_t lease = 100 + chance(PS_ARRAY_LEN(units));
    uint64_t next = UNITS_OF(lease);
    bool again = next > 0 && chance(4) == 0;
    rig.request.stream = lease;
    rig.request.sequence = again ? next - 1 - chance(next < 3 ? next : 3) : next;
    rig.request.acked_below = chance(2) == 0 ? rig.request.sequence - chance(2) : 0;
    if (rig.request.acked_below > rig.request.sequence) {
        rig.request.acked_below = 0;
    }
    UNITS_OF(lease) += again ? 0 : 1 + chance(9) / 8; /* Some are passed over. */
    if (chance(10) == 0) {
        rig.request.stream = 0;
        rig.request.sequence = session * 1000 + next;
    }
    rig.request.rate = 0.125f * (float)(1 + chance(4));
}

static void push_blocks(void)
{
    uint64_t session = 1 + chance(4);
    (void)rig_request(session);
    rig_gradients(ps_rng_next(&rng));
    choose_unit(session);
    uint64_t stream = rig.request.stream;
    uint64_t sequence = rig.request.sequence;
    rig_add_push(stream, sequence, 1 + (uint32_t)chance(ALL));
    deliver(NULL, 0, PS_DATA_PUSH);
}

/* Rows of one or both tables in one slot; fragments now and then. */
static void push_rows(void)
{
    static uint8_t rows[64u << 10];
    uint64_t session = 1 + chance(4);
    uint32_t at = (uint32_t)chance(ROW_SLOTS);
    (void)rig_request(session);
    choose_unit(session);
    struct ps_share *share = &rig.request.push;
    share->slots[share->n_slots++] =
        (struct ps_slot_part){.slot = row_slots[at], .n_fragments = 1, .epoch = RIG_EPOCH};
    if (chance(4) == 0) {
        share->slots[0].n_fragments = 2;
        share->slots[0].fragment = (uint32_t)chance(2);
    }
    size_t n_bytes = 0;
    uint64_t which = 1 + chance(3);
    for (uint32_t i = 0; i < 2; i++) {
        n_bytes += (which >> i & 1) != 0 ? add_rows(at, tables[i], rows + n_bytes) : 0;
    }
    rig.request.n_payload_bytes = n_bytes;
    deliver(rows, n_bytes, PS_DATA_PUSH);
}

static void look(void)
{
    if (reader != NULL) {
        fake_call_settle(reader);
        reader = NULL;
        return;
    }
    rig_request(4)->no_clock = true;
    rig_add_pull(0, ALL);
    reader = rig_deliver(PS_DATA_PULL);
    rig_pump();
}

/* Lists and a clock. It waits for its records, so that the arrays may be ours. */
static void tell_news(void)
{
    static struct ps_open_session list[4];
    static struct ps_seen_range range;
    struct ps_lane_update *news = rig_news();
    news->min_clock = min_clock += chance(2);
    if (chance(3) == 0) {
        uint32_t n = 0;
        uint64_t gone = 1 + chance(6); /* Mostly nobody. */
        for (uint64_t number = 1; number <= 4; number++) {
            if (number != gone || number == 4) {
                list[n++] = (struct ps_open_session){number, {{(uint8_t)number}}};
            }
        }
        news->has_sessions = true;
        news->sessions = (struct ps_record_sessions){
            .version = ++n_lists, .sessions = list, .n_sessions = n, .knows_staged = true};
    }
    if (chance(6) == 0) {
        range = (struct ps_seen_range){100, 99 + ++n_finishes % 3};
        news->has_finish = range.last >= range.first;
        news->finish =
            (struct ps_record_finish){.version = n_finishes, .ranges = &range, .n_ranges = 1};
    }
    rig_post();
    while (!rig.updated) {
        rig_commit(1 + (uint32_t)chance(100));
    }
}

static void settle_some(void)
{
    for (uint32_t i = 0; i < n_calls;) {
        if (fake_call_finished(calls[i])) {
            fake_call_settle(calls[i]);
            calls[i] = calls[--n_calls];
        } else {
            i++;
        }
    }
}

/* After each step up to `n_commit_max` records are committed: few leave many in flight. */
static void live(uint32_t n_steps, uint32_t n_commit_max)
{
    for (uint32_t i = 0; i < n_steps; i++) {
        switch (chance(8)) {
        case 0:
        case 1:
        case 2: push_blocks(); break;
        case 3:
        case 4:
        case 5: push_rows(); break;
        case 6: look(); break;
        default: tell_news(); break;
        }
        rig_commit((uint32_t)chance(n_commit_max + 1));
        settle_some();
    }
}

static void end_life(void)
{
    if (reader != NULL) {
        fake_call_settle(reader);
        reader = NULL;
    }
    rig_commit(LATE_COMMIT_ALL);
    settle_some();
    ck_assert_uint_eq(n_calls, 0);
    rig.hold = false;
}

static void close_life(void)
{
    records_drop();
    rig.cuts = true;
    rig_close();
}

/* ---- A log ----------------------------------------------------------------------------------- */

/* rig_open made its first records before anybody could keep them. */
static struct ps_cut *begin_life(uint64_t seed, uint32_t n_lanes)
{
    open_life(seed, n_lanes);
    rig.hold = false;
    struct ps_cut *cut = cut_of_rig();
    rig.hold = true;
    records_keep();
    return cut;
}

static void from_cut_and_log(struct ps_cut *cut, uint32_t n_lanes, struct ps_cut *want)
{
    struct twin twin;
    twin_open(&twin, n_lanes);
    twin_restore(&twin, cut, false);
    struct ps_cut *same = cut_of_twin(&twin);
    cut_expect_equal(cut, same);
    ps_cut_free(same);
    twin_replay(&twin, NULL);
    struct ps_cut *got = cut_of_twin(&twin);
    cut_expect_equal(want, got);
    ps_cut_free(got);
    twin_close(&twin);
}

START_TEST(a_log_gives_the_same_state_on_any_number_of_lanes)
{
    struct ps_cut *first = begin_life(test_seed() * 100 + (uint64_t)_i, 1 + (uint32_t)_i % 3);
    live(150, 5);
    end_life();
    struct ps_cut *want = cut_of_rig();
    ck_assert_uint_gt(records_kept(), 100);
    for (uint32_t n_lanes = 1; n_lanes <= 3; n_lanes++) {
        from_cut_and_log(first, n_lanes, want);
    }
    ps_cut_free(want);
    ps_cut_free(first);
    close_life();
}
END_TEST

/* A cut is heard with records in flight, and life goes on while it is taken and kept. */
START_TEST(a_cut_is_each_slot_at_one_position_whatever_is_in_flight)
{
    struct ps_cut *first = begin_life(test_seed() * 200 + (uint64_t)_i, 1 + (uint32_t)_i % 3);
    live(40, 2);
    uint64_t applied[PS_SLOTS];
    uint32_t n_waiting = rig.committer.n_waiting;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        applied[s] = rig.svc.lanes[ps_lane_of(s, rig.svc.n_lanes)]->slots[s]->applied;
    }
    struct ps_cut *cut = cut_post();
    rig_pump();
    ck_assert(cut_done() == (n_waiting == 0));
    live(40, 2);
    end_life();
    ck_assert(cut_done());
    ck_assert_int_eq(atomic_load(&cut->status), PS_OK);
    uint64_t positions[PS_SLOTS];
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        ck_assert(cut->slots[s].taken);
        positions[s] = cut->slots[s].position;
        ck_assert_uint_ge(positions[s], applied[s]);
    }
    struct twin twin;
    twin_open(&twin, 2);
    twin_restore(&twin, first, false);
    twin_replay(&twin, positions);
    struct ps_cut *same = cut_of_twin(&twin);
    cut_expect_equal(cut, same);
    ps_cut_free(same);
    twin_close(&twin);
    struct ps_cut *want = cut_of_rig();
    from_cut_and_log(cut, 2, want);
    ps_cut_free(want);
    ps_cut_free(cut);
    ps_cut_free(first);
    close_life();
}
END_TEST

/* ---- Staged gradients ------------------------------------------------------------------------ */

static void stage(uint64_t session, uint64_t lease, uint64_t unit, uint64_t of_step)
{
    rig_gradients(100 * session + of_step);
    (void)rig_request(session);
    rig.request.step = of_step;
    rig_add_push(lease, unit, ALL);
    deliver(NULL, 0, PS_DATA_PUSH);
}

START_TEST(what_is_staged_is_in_the_cut_and_is_closed_behind_it)
{
    struct ps_cut *first = begin_life(1, 2);
    rig.hold = false;
    rig_consistency(PS_GATE_BOUNDED, 0, true);
    stage(1, 101, 0, 0);
    stage(2, 102, 0, 0);
    rig.hold = true;
    stage(3, 103, 0, 0);
    struct ps_cut *cut = cut_post();
    rig_pump();
    stage(1, 101, 1, 1); /* Behind the cut. */
    end_life();
    ck_assert(cut_done());
    for (uint32_t s = 0; s < RIG_SLOTS; s++) {
        ck_assert_uint_eq(cut->slots[s].n_staged, 3);
    }
    rig_close_step(0, (struct ps_close_entry[]){{1, 101, 0, 8}, {3, 103, 0, 8}}, 2);
    struct ps_cut *want = cut_of_rig();
    ck_assert_uint_eq(want->slots[0].n_staged, 1);
    from_cut_and_log(cut, 1, want);
    from_cut_and_log(first, 3, want);
    ps_cut_free(want);
    ps_cut_free(cut);
    ps_cut_free(first);
    close_life();
}
END_TEST

/* ---- A new generation ------------------------------------------------------------------------ */

/* Sessions are gone, what leases have done is not: it is taken, under any session. */
START_TEST(a_way_back_keeps_what_leases_have_done_and_no_session)
{
    struct ps_cut *first = begin_life(1, 2);
    rig.hold = false;
    ck_assert_int_eq(rig_push(1, 100, 0), PS_OK);
    ck_assert_int_eq(rig_push(1, 0, 7), PS_OK); /* Of the session itself. */
    struct ps_cut *cut = cut_of_rig();
    struct twin twin;
    twin_open(&twin, 1);
    twin_restore(&twin, cut, true);
    struct ps_slot *slot = twin.lanes[0]->slots[1];
    ck_assert_uint_eq(slot->applied, cut->slots[1].position);
    ck_assert_uint_eq(slot->n_sessions, 0);
    ck_assert_uint_eq(slot->sessions_version, 0);
    struct ps_seen_item item = {.stream = 100, .sequence = 0, .n_fragments = 1};
    ck_assert_int_eq(ps_seen_look(&slot->seen, &item), PS_SEEN_TAKEN);
    item.sequence = 1;
    ck_assert_int_eq(ps_seen_look(&slot->seen, &item), PS_SEEN_NEW);
    item =
        (struct ps_seen_item){.stream = PS_SEEN_SESSION_STREAM(1), .sequence = 7, .n_fragments = 1};
    ck_assert_int_eq(ps_seen_look(&slot->seen, &item), PS_SEEN_NEW);
    twin_close(&twin);
    ps_cut_free(cut);
    ps_cut_free(first);
    close_life();
}
END_TEST

/* The slots are the rig's again. A coordinator would raise the epoch; the rig has only one. */
static void place_in(uint64_t epoch)
{
    struct ps_lane_update *news = rig_news();
    news->has_placement = true;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        news->primary[s] = true;
        news->epoch[s] = epoch;
    }
    ck_assert_int_eq(rig_send(), PS_OK);
}

/* The lanes themselves go back, with records in flight that nobody will want any more. */
START_TEST(lanes_that_are_cleared_apply_nothing_of_before)
{
    struct ps_cut *begin = begin_life(1, 2);
    static float weights[RIG_N_FLOATS];
    static float back[RIG_N_FLOATS];
    rig.hold = false;
    rig_sessions(2, 1); /* A cut that is a record further than what follows it. */
    struct ps_cut *first = cut_of_rig();
    for (uint32_t i = 0; i < rig.svc.n_lanes; i++) {
        ps_lane_clear(rig.svc.lanes[i]);
    }
    struct twin twin = {.n_lanes = rig.svc.n_lanes};
    memcpy((void *)twin.lanes, (void *)rig.svc.lanes, sizeof(twin.lanes));
    twin_restore(&twin, begin, false);
    place_in(RIG_EPOCH);
    rig.hold = true;
    rig_read(weights);
    (void)rig_request(1);
    rig_add_push(100, 0, ALL);
    deliver(NULL, 0, PS_DATA_PUSH);
    rig_news()->has_finish = true;
    struct ps_seen_range range = {500, 500};
    rig.update.finish = (struct ps_record_finish){.version = 1, .ranges = &range, .n_ranges = 1};
    rig_post();
    struct ps_cut *cut = cut_post();
    rig_pump();
    ck_assert(!rig.updated && !cut_done());
    for (uint32_t i = 0; i < rig.svc.n_lanes; i++) {
        ps_lane_clear(rig.svc.lanes[i]);
    }
    rig_pump();
    ck_assert(cut_done());
    ck_assert_int_eq(atomic_load(&cut->status), PS_ERR_CANCELED);
    ps_cut_free(cut);
    ck_assert(!fake_call_finished(calls[0])); /* The committer still reads its bytes. */
    struct ps_lane_position at[PS_SLOTS];
    ck_assert_uint_eq(ps_lane_positions(rig.svc.lanes[0], at), 0);
    /* Restored to more than it had, before the records of then are committed. */
    twin_restore(&twin, first, true);
    rig_commit(LATE_COMMIT_ALL);
    ck_assert(rig.updated && atomic_load(&rig.update.stale));
    ck_assert_int_eq(fake_call_reply(calls[0])->push[0].status, PS_ERR_UNAVAIL);
    settle_some();
    rig.hold = false;
    place_in(RIG_EPOCH);
    rig_sessions(1, 1);
    rig_read(back);
    ck_assert_mem_eq(back, weights, sizeof(back));
    ck_assert_int_eq(rig_push(1, 100, 0), PS_OK);
    rig_read(back);
    ck_assert_mem_ne(back, weights, sizeof(back));
    ps_cut_free(begin);
    ps_cut_free(first);
    close_life();
}
END_TEST

/* ---- Without memory, without time ------------------------------------------------------------ */

START_TEST(a_cut_without_memory_says_so_and_leaves_nothing)
{
    struct ps_cut *first = begin_life(1, 1);
    live(20, 5);
    end_life();
    bool failed = true;
    for (int64_t fail_after = 1; failed; fail_after++) {
        ck_assert_int_lt(fail_after, 2000); /* A bounded walk: this must end. */
        atomic_store(&rig.mem.fail_after, fail_after);
        struct ps_cut *cut = cut_post();
        rig_pump();
        ck_assert(cut_done());
        failed = atomic_load(&cut->status) != PS_OK;
        ck_assert(!failed || atomic_load(&cut->status) == PS_ERR_NOMEM);
        atomic_store(&rig.mem.fail_after, -1);
        ps_cut_free(cut);
    }
    ps_cut_free(first);
    close_life();
}
END_TEST

/* One key of tables[0] in slot 9, with a gradient of `grad` in each place. */
static void push_key(uint64_t sequence, uint64_t key, float grad)
{
    uint8_t bytes[PS_KEY_BYTES_MAX + WIDTH * sizeof(float)];
    float grads[WIDTH] = {grad, grad, grad};
    size_t n = ps_keys_write(&key, 1, bytes, sizeof(bytes));
    memcpy(bytes + n, grads, sizeof(grads));
    struct ps_part part = {.table = tables[0],
                           .dtype = PS_DTYPE_F32,
                           .n_keys = 1,
                           .n_key_bytes = (uint32_t)n,
                           .n_bytes = (uint32_t)(n + sizeof(grads))};
    (void)rig_request(1);
    rig.request.stream = 100;
    rig.request.sequence = sequence;
    rig.request.push.slots[rig.request.push.n_slots++] =
        (struct ps_slot_part){.slot = 9, .n_fragments = 1, .n_parts = 1, .epoch = RIG_EPOCH};
    rig.request.push.parts[rig.request.push.n_parts++] = part;
    rig.request.n_payload_bytes = part.n_bytes;
    deliver(bytes, part.n_bytes, PS_DATA_PUSH);
}

/*
 * A row is known when its push is proposed, and swept before it is applied, its page given up: then
 * it needs memory that nobody found for it.
 */
START_TEST(a_row_that_goes_while_its_push_is_in_flight_comes_again)
{
    struct ps_cut *first = begin_life(1, 1);
    const struct ps_sparse *sparse = rig.svc.lanes[0]->rows[tables[0]]->slots[9];
    for (uint64_t i = 0; i < 2; i++) { /* It is admitted with the second. */
        push_key(i, keys[2][0], 0.5f);
        rig_commit(LATE_COMMIT_ALL);
        settle_some();
    }
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, 1);
    rig_news()->min_clock = 10;
    rig_post();
    push_key(2, keys[2][1], 0.0f); /* Makes no row, brings the clock. */
    push_key(3, keys[2][0], 0.5f);
    push_key(4, keys[2][0], 0.5f);
    rig_commit(1);
    for (uint32_t i = 0; i < 2 * PS_SLOTS; i++) { /* Each time another slot is swept. */
        rig_news()->min_clock = 10;
        rig_pass_ms(1000);
        rig_post();
    }
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, 0);
    end_life();
    ck_assert_uint_eq(ps_sparse_stats(sparse).n_rows, 1);
    struct ps_cut *want = cut_of_rig();
    from_cut_and_log(first, 1, want);
    ps_cut_free(want);
    ps_cut_free(first);
    close_life();
}
END_TEST

/* ---- Damage ---------------------------------------------------------------------------------- */

static void expect_refused(struct twin *twin, const struct ps_record *record, const char *what)
{
    struct ps_error err = {0};
    enum ps_status status = ps_lane_replay(twin_lane(twin, record->slot), record, &err);
    ck_assert_msg(status == PS_ERR_CORRUPT, "%s: %d", what, (int)status);
    ck_assert_msg(err.text[0] != '\0', "%s", what);
}

/* A record of each kind, one field changed: refused, and no assertion is met. */
START_TEST(records_that_cannot_be_are_refused)
{
    struct ps_cut *first = begin_life(3, 1);
    live(60, 5);
    end_life();
    uint32_t n_tried = 0;
    for (uint32_t i = 0; i < records_kept(); i++) {
        struct ps_record good = *records_at(i);
        if (good.kind != PS_RECORD_PUSH || good.push.n_parts == 0) {
            continue;
        }
        struct twin twin;
        twin_open(&twin, 1);
        uint64_t positions[PS_SLOTS] = {0};
        for (uint32_t k = 0; k < i; k++) {
            positions[records_at(k)->slot] = records_at(k)->position;
        }
        twin_restore(&twin, first, false);
        twin_replay(&twin, positions);
        struct ps_part parts[PS_CALL_PARTS_MAX];
        memcpy(parts, good.push.parts, good.push.n_parts * sizeof(parts[0]));
        struct ps_record bad = good;
        bad.push.parts = parts;
        bad.position++;
        expect_refused(&twin, &bad, "a gap");
        bad = good;
        bad.epoch++;
        expect_refused(&twin, &bad, "another epoch");
        bad.epoch = good.epoch;
        bad.push.parts = parts;
        struct ps_part part = parts[0];
        parts[0].table = 200;
        expect_refused(&twin, &bad, "no table");
        parts[0] = part;
        parts[0].n_bytes += 4;
        expect_refused(&twin, &bad, "another size");
        parts[0] = part;
        parts[0].n_bytes = UINT32_MAX;
        expect_refused(&twin, &bad, "an absurd size");
        parts[0] = part;
        parts[0].block += 1000;
        parts[0].n_keys += 1;
        expect_refused(&twin, &bad, "a block or a key that is not there");
        parts[0] = part;
        bad.push.payload.n_left -= 1;
        expect_refused(&twin, &bad, "short");
        bad.push.payload = good.push.payload;
        ck_assert_int_eq(ps_lane_replay(twin.lanes[0], &bad, NULL), PS_OK);
        ck_assert_int_eq(ps_lane_replay(twin.lanes[0], &good, NULL), PS_OK); /* Passed over. */
        bad.position++;
        expect_refused(&twin, &bad, "what is taken already");
        twin_close(&twin);
        n_tried++;
        i += 15;
    }
    ck_assert_uint_gt(n_tried, 3);
    ps_cut_free(first);
    close_life();
}
END_TEST

START_TEST(saved_things_of_the_wrong_size_are_refused)
{
    struct ps_cut *first = begin_life(3, 1);
    live(30, 5);
    end_life();
    struct ps_cut *cut = cut_of_rig();
    struct twin twin;
    twin_open(&twin, 1);
    twin_restore(&twin, cut, false);
    struct ps_lane *lane = twin.lanes[0];
    static float values[8192];
    struct ps_error err;
    struct ps_dense_saved saved = {.weights = values, .n = RIG_BLOCK};
    ck_assert_int_eq(ps_lane_restore_block(lane, 0, 0, &saved, &err), PS_OK);
    ck_assert_int_eq(ps_lane_restore_block(lane, 0, 3, &saved, &err), PS_ERR_CORRUPT);
    ck_assert_int_eq(ps_lane_restore_block(lane, 99, 0, &saved, &err), PS_ERR_CORRUPT);
    ck_assert_int_eq(ps_lane_restore_block(lane, tables[0], 0, &saved, &err), PS_ERR_CORRUPT);
    saved.n--;
    ck_assert_int_eq(ps_lane_restore_block(lane, 0, 0, &saved, &err), PS_ERR_CORRUPT);
    saved.n = RIG_N_BIAS; /* Momentum has state. */
    ck_assert_int_eq(ps_lane_restore_block(lane, 1, 0, &saved, &err), PS_ERR_CORRUPT);
    struct ps_sparse_row row = {.key = 1, .weights = values, .state = values};
    ck_assert_int_eq(ps_lane_restore_row(lane, tables[0], 9, &row, &err), PS_ERR_CORRUPT);
    row.t = 1;
    ck_assert_int_eq(ps_lane_restore_row(lane, tables[0], 9, &row, &err), PS_OK);
    ck_assert_int_eq(ps_lane_restore_row(lane, 0, 9, &row, &err), PS_ERR_CORRUPT);
    ck_assert_int_eq(ps_lane_restore_row(lane, tables[0], 64, &row, &err), PS_ERR_CORRUPT);
    static uint8_t counts[PS_ADMIT_BYTES];
    struct ps_sparse_rest rest = {.counts = counts};
    ck_assert_int_eq(ps_lane_restore_rest(lane, tables[0], 9, &rest, sizeof(counts), &err), PS_OK);
    ck_assert_int_eq(ps_lane_restore_rest(lane, tables[0], 9, &rest, 64, &err), PS_ERR_CORRUPT);
    rest.aged = sizeof(counts) / 8;
    ck_assert_int_eq(ps_lane_restore_rest(lane, tables[0], 9, &rest, sizeof(counts), &err),
                     PS_ERR_CORRUPT);
    struct ps_slice state = {.data = cut->slots[9].state, .n_bytes = cut->slots[9].n_state_bytes};
    ck_assert_int_eq(ps_lane_restore_state(lane, 10, state, false, &err), PS_ERR_CORRUPT);
    struct ps_record staged = *records_at(records_kept() - 1);
    staged.kind = PS_RECORD_CLOSE;
    ck_assert_int_eq(ps_lane_restore_staged(lane, &staged, &err), PS_ERR_CORRUPT);
    twin_close(&twin);
    ps_cut_free(cut);
    ps_cut_free(first);
    close_life();
}
END_TEST

Suite *suite_restore(void)
{
    Suite *suite = suite_create("restore");
    TCase *tcase = tcase_create("restore");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_log_gives_the_same_state_on_any_number_of_lanes, 0, 6);
    tcase_add_loop_test(tcase, a_cut_is_each_slot_at_one_position_whatever_is_in_flight, 0, 12);
    tcase_add_test(tcase, what_is_staged_is_in_the_cut_and_is_closed_behind_it);
    tcase_add_test(tcase, a_way_back_keeps_what_leases_have_done_and_no_session);
    tcase_add_test(tcase, lanes_that_are_cleared_apply_nothing_of_before);
    tcase_add_test(tcase, a_cut_without_memory_says_so_and_leaves_nothing);
    tcase_add_test(tcase, a_row_that_goes_while_its_push_is_in_flight_comes_again);
    tcase_add_test(tcase, records_that_cannot_be_are_refused);
    tcase_add_test(tcase, saved_things_of_the_wrong_size_are_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}
