/*
 * test_rows.c — rows of sparse tables through svc and lanes: pushed exactly once, pulled as they
 * are, checked whole, and BUSY instead of trouble when memory is short.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "cluster/keys.h"
#include "lib/test_main.h"
#include "num/init.h"
#include "optim/rows.h"
#include "rig.h"
#include "suites.h"
#include "wire/keys.h"

#define WIDTH       3u
#define KEYS_MAX    512u
#define PAYLOAD_MAX (64u << 10)
#define SLOT        9u /* Without blocks. */

static uint32_t table;
static uint8_t payload[PAYLOAD_MAX];
static uint64_t keys[KEYS_MAX];
static float grads[KEYS_MAX][WIDTH];
static float want[KEYS_MAX][WIDTH];
static float got[KEYS_MAX][WIDTH];

/* ---- Calls with rows ------------------------------------------------------------------------ */

/* Some keys of a slot, ascending, spread over all 64 bits. */
static void find_keys(uint32_t slot, uint32_t n)
{
    uint64_t step = UINT64_MAX / (200u * n);
    uint32_t n_found = 0;
    for (uint64_t key = step; n_found < n; key += step) {
        ck_assert_uint_lt(key, UINT64_MAX - step);
        if (ps_keys_slot(key, RIG_KEY_SEED) == slot) {
            keys[n_found++] = key;
        }
    }
}

static void start(uint32_t n_lanes, const struct rig_rows *rows)
{
    rig_open(n_lanes);
    table = rig_define_rows(rows);
    find_keys(SLOT, 64);
    struct ps_init init = {.kind = PS_INIT_UNIFORM, .scale = 1.0f};
    for (uint32_t i = 0; i < KEYS_MAX; i++) {
        init.seed = ps_rng_at(6, table, keys[i]);
        ps_init_fill(&init, 0, 0, want[i], WIDTH);
        for (uint32_t j = 0; j < WIDTH; j++) {
            grads[i][j] = (float)(i % 5) - 2.0f + (float)j;
        }
    }
}

static const struct rig_rows plain = {.optim = "sgd", .width = WIDTH};

static void add_bytes(const void *data, size_t n_bytes)
{
    ck_assert(rig.request.n_payload_bytes + n_bytes <= sizeof(payload));
    memcpy(payload + rig.request.n_payload_bytes, data, n_bytes);
    rig.request.n_payload_bytes += n_bytes;
}

/* Keys [first, first + n) of one slot, as a part of their own slot. */
static void add_rows(bool push, uint32_t slot, uint32_t first, uint32_t n)
{
    struct ps_share *share = push ? &rig.request.push : &rig.request.pull;
    uint8_t bytes[KEYS_MAX * PS_KEY_BYTES_MAX];
    size_t n_key_bytes = ps_keys_write(keys + first, n, bytes, sizeof(bytes));
    share->slots[share->n_slots++] = (struct ps_slot_part){.slot = slot,
                                                           .n_fragments = 1,
                                                           .first_part = share->n_parts,
                                                           .n_parts = 1,
                                                           .epoch = RIG_EPOCH};
    struct ps_part *part = &share->parts[share->n_parts++];
    *part = (struct ps_part){
        .table = table, .dtype = PS_DTYPE_F32, .n_keys = n, .n_key_bytes = (uint32_t)n_key_bytes};
    add_bytes(bytes, n_key_bytes);
    if (push) {
        part->n_bytes = (uint32_t)(n_key_bytes + n * sizeof(grads[0]));
        add_bytes(grads + first, n * sizeof(grads[0]));
    }
}

/* Deliver the request with `payload` behind it, in slices of so many bytes. */
static struct fake_call *deliver(enum ps_data_kind kind, size_t n_slice)
{
    static uint8_t bytes[PS_HEAD_BYTES_MAX + PAYLOAD_MAX];
    static struct ps_slice slices[PS_HEAD_BYTES_MAX + PAYLOAD_MAX];
    size_t n = ps_data_request_write(&rig.request, bytes, PS_HEAD_BYTES_MAX);
    memcpy(bytes + n, payload, rig.request.n_payload_bytes);
    n += rig.request.n_payload_bytes;
    size_t n_slices = 0;
    for (size_t at = 0; at < n; at += n_slice) {
        slices[n_slices++] = (struct ps_slice){bytes + at, n - at < n_slice ? n - at : n_slice};
    }
    struct fake_call *call = rig_deliver_bytes(kind, slices, n_slices);
    rig_pump();
    return call;
}

static struct fake_call *push_call(uint64_t session, uint64_t sequence, uint32_t first, uint32_t n)
{
    (void)rig_request(session);
    rig.request.sequence = sequence;
    rig.request.stream = 100;
    add_rows(true, SLOT, first, n);
    return deliver(PS_DATA_PUSH, 1u << 20);
}

static enum ps_status push(uint64_t session, uint64_t sequence, uint32_t first, uint32_t n)
{
    struct fake_call *call = push_call(session, sequence, first, n);
    const struct ps_data_reply *reply = fake_call_reply(call);
    ck_assert_uint_eq(reply->n_push, 1);
    ck_assert_int_eq(reply->retry_ms > 0, ps_status_retryable(reply->push[0].status));
    enum ps_status status = reply->push[0].status;
    fake_call_settle(call);
    return status;
}

static struct fake_call *pull_call(uint32_t first, uint32_t n)
{
    rig_request(4)->no_clock = true;
    add_rows(false, SLOT, first, n);
    return deliver(PS_DATA_PULL, 1u << 20);
}

static void pull(uint32_t first, uint32_t n)
{
    struct fake_call *call = pull_call(first, n);
    ck_assert_int_eq(fake_call_reply(call)->pull[0].status, PS_OK);
    ck_assert_uint_eq(fake_call_payload(call, got[first], n * sizeof(got[0])), n * sizeof(got[0]));
    fake_call_settle(call);
}

/* The rule by hand. */
static void apply_by_hand(uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        for (uint32_t j = 0; j < WIDTH; j++) {
            want[i][j] = want[i][j] - 0.5f * grads[i][j];
        }
    }
}

static void expect(const char *what)
{
    pull(0, 64);
    ck_assert_msg(memcmp(got, want, 64 * sizeof(want[0])) == 0, "%s", what);
}

static struct ps_sparse_stats figures(uint64_t *ret_refused)
{
    struct ps_sparse_stats sum = {0};
    *ret_refused = 0;
    rig_pass_ms(1000);
    rig_min_clock(rig.update.min_clock);
    for (uint32_t i = 0; i < rig.svc.n_lanes; i++) {
        ck_assert(ps_lane_figures(rig.svc.lanes[i], table, &sum, ret_refused));
    }
    return sum;
}

/* ---- Exactly once --------------------------------------------------------------------------- */

START_TEST(rows_are_pushed_once_and_their_repeats_are_acknowledged)
{
    start(2, &plain);
    expect("a key without a row answers its first values");
    uint64_t n_refused = 0;
    ck_assert_uint_eq(figures(&n_refused).n_rows, 0);
    for (uint64_t unit = 0; unit < 3; unit++) {
        apply_by_hand((uint32_t)unit, 40);
        for (int copy = 0; copy < 3; copy++) {
            ck_assert_int_eq(push(1 + unit % 2, unit, (uint32_t)unit, 40), PS_OK);
            expect("a push, or a copy of it");
        }
    }
    struct ps_sparse_stats stats = figures(&n_refused);
    ck_assert_uint_eq(stats.n_rows, 42);
    ck_assert_uint_eq(stats.n_created, 42);
    ck_assert_uint_eq(stats.n_updated, 120);
    ck_assert_uint_eq(n_refused, 0);
    ck_assert_uint_gt(stats.n_bytes, 42 * sizeof(want[0]));
    rig_close();
}
END_TEST

/* Keys and values at any cut of the bytes. */
START_TEST(rows_are_the_same_however_their_bytes_arrive)
{
    for (size_t n_slice = 1; n_slice < 40; n_slice += 3) {
        start(1, &plain);
        rig.n_straddlers_max = UINT32_MAX;
        (void)rig_request(1);
        add_rows(true, SLOT, 0, 64);
        fake_call_settle(deliver(PS_DATA_PUSH, n_slice));
        apply_by_hand(0, 64);
        rig_request(4)->no_clock = true;
        add_rows(false, SLOT, 0, 64);
        struct fake_call *call = deliver(PS_DATA_PULL, n_slice);
        ck_assert_uint_eq(fake_call_payload(call, got, sizeof(got)), 64 * sizeof(got[0]));
        ck_assert_mem_eq(got, want, 64 * sizeof(want[0]));
        fake_call_settle(call);
        rig_close();
    }
}
END_TEST

/* A block and rows in one slot, rows alone in another; pushed and pulled in one call. */
START_TEST(blocks_and_rows_share_a_slot_and_a_call)
{
    static uint64_t others[8];
    start(2, &plain);
    find_keys(3, 8);
    memcpy(others, keys, sizeof(others));
    find_keys(SLOT, 64);
    (void)rig_request(1);
    rig_add_push(100, 0, 8); /* Slot 3: `bias`, momentum. */
    rig.request.n_payload_bytes = 0;
    add_bytes(rig.gradients + RIG_N_WEIGHTS, RIG_N_BIAS * sizeof(float));
    memcpy(keys, others, sizeof(others));
    add_rows(true, 3, 0, 8);
    rig.request.push.n_slots--; /* One slot, two parts. */
    rig.request.push.slots[0].n_parts = 2;
    find_keys(SLOT, 64);
    add_rows(true, SLOT, 0, 64);
    rig.request.pull_step = 0;
    add_rows(false, SLOT, 0, 64);
    struct fake_call *call = deliver(PS_DATA_PUSH_PULL, 1000);
    rig.n_straddlers_max = UINT32_MAX;
    const struct ps_data_reply *reply = fake_call_reply(call);
    ck_assert_uint_eq(reply->n_push, 2);
    ck_assert_int_eq(reply->push[0].status, PS_OK);
    ck_assert_int_eq(reply->push[1].status, PS_OK);
    ck_assert_int_eq(reply->pull[0].status, PS_OK);
    ck_assert_uint_eq(fake_call_payload(call, got, sizeof(got)), 64 * sizeof(got[0]));
    apply_by_hand(0, 64);
    ck_assert_mem_eq(got, want, 64 * sizeof(want[0])); /* With the push of the same call. */
    fake_call_settle(call);
    uint64_t n_refused = 0;
    ck_assert_uint_eq(figures(&n_refused).n_rows, 72);
    rig_close();
}
END_TEST

/* Two fragments of rows in a slot without blocks: each is taken once, and they must agree. */
START_TEST(fragments_of_rows_are_taken_each_once_and_must_agree)
{
    start(1, &plain);
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t fragment = i % 2;
        (void)rig_request(1 + i % 3);
        rig.request.stream = 100;
        add_rows(true, SLOT, 32 * fragment, 32);
        rig.request.push.slots[0].fragment = fragment;
        rig.request.push.slots[0].n_fragments = i == 5 ? 3 : 2;
        struct fake_call *call = deliver(PS_DATA_PUSH, 1u << 20);
        ck_assert_int_eq(fake_call_reply(call)->push[0].status, PS_OK);
        fake_call_settle(call);
    }
    apply_by_hand(0, 64);
    expect("each fragment once");
    for (uint32_t i = 0; i < 2; i++) { /* Before the sequence is whole another count is refused. */
        (void)rig_request(1);
        rig.request.stream = 100;
        rig.request.sequence = 1;
        add_rows(true, SLOT, 0, 1);
        rig.request.push.slots[0].n_fragments = 2 + i;
        struct fake_call *call = deliver(PS_DATA_PUSH, 1u << 20);
        ck_assert_int_eq(fake_call_reply(call)->push[0].status, i == 0 ? PS_OK : PS_ERR_INVALID);
        fake_call_settle(call);
    }
    rig_close();
}
END_TEST

/* ---- What a call says of itself ------------------------------------------------------------- */

static struct ps_part *part(void)
{
    return &rig.request.push.parts[0];
}

static void more_keys(void)
{
    part()->n_keys++;
}
static void fewer_keys(void)
{
    part()->n_keys--;
    part()->n_bytes -= WIDTH * 4;
    rig.request.n_payload_bytes -= WIDTH * 4;
}
static void no_keys(void)
{
    part()->n_keys = 0;
}
static void longer_keys(void)
{
    part()->n_key_bytes++;
    part()->n_bytes++;
    rig.request.n_payload_bytes++;
}
static void shorter_keys(void)
{
    part()->n_key_bytes--;
    part()->n_bytes--;
    rig.request.n_payload_bytes--;
}
static void keys_beyond_all(void)
{
    part()->n_key_bytes = part()->n_bytes;
}
static void keys_without_end(void)
{
    part()->n_key_bytes = UINT32_MAX;
}
static void other_width(void)
{
    part()->n_bytes += 8 * 4;
    rig.request.n_payload_bytes += 8 * 4;
}
static void most_keys(void)
{
    part()->n_keys = UINT32_MAX;
    part()->n_key_bytes = UINT32_MAX;
}
static void a_block(void)
{
    part()->block = 1;
}
static void odd_dtype(void)
{
    part()->dtype = 0;
}
static void odd_codec(void)
{
    part()->codec = 1;
}
static void odd_table(void)
{
    part()->table = table + 1;
}
static void dense_table(void)
{
    part()->table = RIG_BIAS;
}
static void other_slot(void)
{
    rig.request.push.slots[0].slot = SLOT + 1;
}
static void strange_key(void)
{
    payload[0] ^= 1; /* Its neighbour, which lives elsewhere. */
    ck_assert_uint_ne(ps_keys_slot(keys[0] ^ 1, RIG_KEY_SEED), SLOT);
}
static void padded_key(void)
{
    part()->n_keys = 1;
    part()->n_key_bytes = 2;
    part()->n_bytes = 2 + WIDTH * 4;
    rig.request.n_payload_bytes = part()->n_bytes;
    payload[0] = 0x80;
    payload[1] = 0;
}
/* What a list that is not in order looks like: the difference goes over the end of the 64 bits. */
static void keys_not_in_order(void)
{
    static const uint8_t differences[] = {5,    0xfa, 0xff, 0xff, 0xff, 0xff,
                                          0xff, 0xff, 0xff, 0xff, 0x01};
    part()->n_keys = 2;
    part()->n_key_bytes = sizeof(differences);
    part()->n_bytes = sizeof(differences) + 2 * WIDTH * 4;
    rig.request.n_payload_bytes = part()->n_bytes;
    memcpy(payload, differences, sizeof(differences));
}
static void not_a_number(void)
{
    float nan = NAN;
    memcpy(payload + part()->n_bytes - 4, &nan, sizeof(nan));
}
static void a_table_twice(void)
{
    add_rows(true, SLOT, 8, 8);
    rig.request.push.n_slots = 1;
    rig.request.push.slots[0].n_parts = 2;
}
static void too_many_fragments(void)
{
    rig.request.push.slots[0].n_fragments = PS_FRAGMENTS_MAX + 1;
}
static void a_fragment_too_far(void)
{
    rig.request.push.slots[0].fragment = 1;
}

/* clang-format off */
static const struct {
    const char *name;
    void (*spoil)(void);
    enum ps_status want;
    const char *words;
} spoilt[] = {
    {"more keys than said",       more_keys,          PS_ERR_INVALID,     "keys of table"},
    {"fewer keys than said",      fewer_keys,         PS_ERR_INVALID,     "are not 7 ascending keys"},
    {"no keys",                   no_keys,            PS_ERR_INVALID,     "is sparse"},
    {"longer keys",               longer_keys,        PS_ERR_INVALID,     "ascending keys"},
    {"shorter keys",              shorter_keys,       PS_ERR_INVALID,     "ascending keys"},
    {"keys that are everything",  keys_beyond_all,    PS_ERR_INVALID,     "keys of table"},
    {"keys without end",          keys_without_end,   PS_ERR_INVALID,     "keys of table"},
    {"another width",             other_width,        PS_ERR_INVALID,     "keys of table"},
    {"as many keys as there are", most_keys,          PS_ERR_INVALID,     "keys of table"},
    {"a block",                   a_block,            PS_ERR_INVALID,     "no block 1"},
    {"a dtype nobody knows",      odd_dtype,          PS_ERR_UNSUPPORTED, "dtype 0"},
    {"a codec nobody knows",      odd_codec,          PS_ERR_UNSUPPORTED, "codec 1"},
    {"a table nobody knows",      odd_table,          PS_ERR_NOT_FOUND,   "no table number"},
    {"keys of a dense table",     dense_table,        PS_ERR_INVALID,     "is dense"},
    {"a slot of other keys",      other_slot,         PS_ERR_INVALID,     "belongs to slot"},
    {"a key of another slot",     strange_key,        PS_ERR_INVALID,     "belongs to slot"},
    {"a padded key",              padded_key,         PS_ERR_INVALID,     "ascending keys"},
    {"keys not in order",         keys_not_in_order,  PS_ERR_INVALID,     ""},
    {"a value that is none",      not_a_number,       PS_ERR_INVALID,     "is not finite"},
    {"a table twice",             a_table_twice,      PS_ERR_INVALID,     "not in order"},
    {"too many fragments",        too_many_fragments, PS_ERR_INVALID,     "fragments"},
    {"a fragment too far",        a_fragment_too_far, PS_ERR_INVALID,     "fragments"},
};
/* clang-format on */

START_TEST(a_push_of_rows_is_checked_whole)
{
    start(1, &plain);
    (void)rig_request(1);
    add_rows(true, SLOT, 0, 8);
    spoilt[_i].spoil();
    struct fake_call *call = deliver(PS_DATA_PUSH, 1u << 20);
    ck_assert_msg(fake_call_status(call) == spoilt[_i].want, "%s: %s", spoilt[_i].name,
                  ps_status_text(fake_call_status(call)));
    ck_assert_msg(strstr(fake_call_reason(call), spoilt[_i].words) != NULL, "%s: '%s'",
                  spoilt[_i].name, fake_call_reason(call));
    fake_call_settle(call);
    expect("nothing was applied");
    uint64_t n_refused = 0;
    ck_assert_uint_eq(figures(&n_refused).n_rows, 0);
    rig_close();
}
END_TEST

START_TEST(a_value_that_is_not_finite_is_named_by_its_key)
{
    char words[64];
    start(1, &plain);
    (void)rig_request(1);
    grads[3][1] = INFINITY;
    add_rows(true, SLOT, 0, 8);
    struct fake_call *call = deliver(PS_DATA_PUSH, 7);
    (void)snprintf(words, sizeof(words), "key %" PRIu64 " is not finite", keys[3]);
    ck_assert_ptr_nonnull(strstr(fake_call_reason(call), words));
    fake_call_settle(call);
    ck_assert_uint_eq(ps_metric_get(&rig.metrics, PS_METRIC_not_finite_total), 1);
    rig_close();
}
END_TEST

/* 0: bytes that a pull has not; 1: more values than a reply takes; 2: keys that are not there. */
START_TEST(a_pull_of_rows_is_checked_whole)
{
    start(1, &plain);
    rig_request(4)->no_clock = true;
    add_rows(false, SLOT, 0, 8);
    struct ps_part *of = &rig.request.pull.parts[0];
    of->n_bytes = _i == 0 ? 4 : 0;
    of->n_keys = _i == 1 ? (PS_MESSAGE_BYTES_MAX / 4 / WIDTH) : of->n_keys;
    if (_i == 1) {
        of->n_key_bytes = of->n_keys;
        rig.request.n_payload_bytes = 0;
        rig.catalogue.tables[table].rows.width = PS_ROW_FLOATS_MAX; /* Few keys, many values. */
        of->n_keys = of->n_key_bytes = 300;
        rig.request.n_payload_bytes = 300;
    }
    if (_i == 2) {
        rig.request.n_payload_bytes = 0;
    }
    struct fake_call *call = deliver(PS_DATA_PULL, 1u << 20);
    ck_assert_int_eq(fake_call_status(call), PS_ERR_INVALID);
    fake_call_settle(call);
    rig.catalogue.tables[table].rows.width = WIDTH;
    rig_close();
}
END_TEST

START_TEST(a_rule_that_divides_by_the_rate_is_not_given_one_of_zero)
{
    start(1, &(struct rig_rows){.optim = "ftrl", .width = WIDTH});
    for (int i = 0; i < 2; i++) {
        rig_request(1)->rate = i == 0 ? 0.0f : 0.1f;
        add_rows(true, SLOT, 0, 8);
        struct fake_call *call = deliver(PS_DATA_PUSH, 1u << 20);
        ck_assert_int_eq(fake_call_status(call), i == 0 ? PS_ERR_INVALID : PS_OK);
        fake_call_settle(call);
    }
    pull(0, 8);
    for (uint32_t i = 0; i < 8 * WIDTH; i++) {
        ck_assert(isfinite((&got[0][0])[i]));
    }
    rig_close();
}
END_TEST

/* Lanes keep no weights of ftrl; what they derive is what the rule would have left there. */
START_TEST(weights_of_ftrl_rows_are_those_of_the_rule)
{
    start(1, &(struct rig_rows){.optim = "ftrl", .width = WIDTH});
    const struct ps_optim *optim = ps_optim_find("ftrl");
    static struct ps_optim_rows rule;
    static float state[64][2 * WIDTH];
    ps_optim_rows_init(&rule, optim, &rig.catalogue.tables[table].params);
    struct ps_optim_row_step step = {.rows = &rule, .rate = 0.1f, .scale = 1.0f, .width = WIDTH};
    memset(state, 0, sizeof(state));
    pull(0, 64);
    memcpy(want, got, sizeof(got));
    for (uint32_t t = 1; t <= 5; t++) {
        rig_request(1)->rate = step.rate;
        rig.request.sequence = t;
        rig.request.stream = 100;
        add_rows(true, SLOT, 0, 64);
        struct fake_call *call = deliver(PS_DATA_PUSH, 1u << 20);
        ck_assert_int_eq(fake_call_reply(call)->push[0].status, PS_OK);
        fake_call_settle(call);
        for (uint32_t i = 0; i < 64; i++) {
            ps_optim_row_apply(&step, t, want[i], state[i], (const uint8_t *)grads[i]);
        }
        pull(0, 64);
        ck_assert_mem_eq(want, got, 64 * sizeof(want[0]));
    }
    rig_close();
}
END_TEST

START_TEST(averaged_steps_know_no_rows)
{
    start(1, &plain);
    rig_consistency(PS_GATE_BOUNDED, 0, true);
    ck_assert_int_eq(push(1, 0, 0, 8), PS_ERR_UNSUPPORTED);
    expect("nothing was applied");
    rig_close();
}
END_TEST

/* ---- Memory --------------------------------------------------------------------------------- */

START_TEST(known_rows_are_pushed_and_pulled_when_there_is_no_memory_left)
{
    start(1, &plain);
    ck_assert_int_eq(push(1, 0, 0, 8), PS_OK);
    apply_by_hand(0, 8);
    rig.mem.limit[PS_MEM_PAGES] = atomic_load(&rig.mem.used[PS_MEM_PAGES]);
    struct fake_call *reader = pull_call(0, 8); /* Gathered: borrows no page. */
    ck_assert_int_eq(push(1, 1, 0, 8), PS_OK);
    apply_by_hand(0, 8);
    fake_call_settle(reader);
    expect("known rows");
    rig_close();
}
END_TEST

/* A slot that is full refuses the whole push, takes no sequence, and says so in its figures. */
START_TEST(a_refused_push_takes_nothing_and_may_come_again)
{
    start(1,
          &(struct rig_rows){.optim = "adam", .width = WIDTH, .expire_after = _i == 0 ? 0 : 1000});
    rig.mem.limit[PS_MEM_PAGES] = atomic_load(&rig.mem.used[PS_MEM_PAGES]);
    pull(0, 64);
    memcpy(want, got, sizeof(got));
    for (int copy = 0; copy < 2; copy++) {
        ck_assert_int_eq(push(1, 0, 0, 64), PS_ERR_NOMEM);
        expect("refused");
    }
    uint64_t n_refused = 0;
    ck_assert_uint_eq(figures(&n_refused).n_rows, 0);
    ck_assert_uint_eq(n_refused, 2);
    rig.mem.limit[PS_MEM_PAGES] = 0;
    ck_assert_int_eq(push(1, 0, 0, 64), PS_OK);
    pull(0, 64);
    ck_assert_mem_ne(want, got, 64 * sizeof(want[0]));
    memcpy(want, got, sizeof(got));
    ck_assert_int_eq(push(1, 0, 0, 64), PS_OK); /* A repeat. */
    expect("once");
    rig_close();
}
END_TEST

/* Known rows of one table and new ones of another: there is memory for the first alone. */
START_TEST(a_slot_without_memory_for_one_table_takes_nothing_for_any)
{
    start(1, &plain);
    ck_assert_int_eq(push(1, 0, 0, 8), PS_OK);
    apply_by_hand(0, 8);
    uint32_t known = table;
    uint32_t other = rig_define_rows(&plain);
    rig_pump();
    rig.mem.limit[PS_MEM_PAGES] = atomic_load(&rig.mem.used[PS_MEM_PAGES]);
    for (uint64_t i = 0; i < 2; i++) {
        (void)rig_request(1);
        rig.request.sequence = 1;
        rig.request.stream = 100;
        add_rows(true, SLOT, 0, 8);
        table = other;
        add_rows(true, SLOT, 0, 64);
        table = known;
        rig.request.push.n_slots = 1; /* Both parts are of one. */
        rig.request.push.slots[0].n_parts = 2;
        struct fake_call *call = deliver(PS_DATA_PUSH, 1u << 20);
        ck_assert_int_eq(fake_call_reply(call)->push[0].status, i == 0 ? PS_ERR_NOMEM : PS_OK);
        fake_call_settle(call);
        if (i == 0) {
            expect("nothing was applied");
        }
        rig.mem.limit[PS_MEM_PAGES] = 0;
    }
    apply_by_hand(0, 8);
    expect("once");
    rig_close();
}
END_TEST

/* 0: a session that is not open; 1: a slot that is elsewhere; 2: a push that is in already. */
START_TEST(who_may_not_push_and_what_is_in_takes_no_memory)
{
    start(1, &plain);
    if (_i == 2) {
        ck_assert_int_eq(push(1, 0, 0, 1), PS_OK);
    }
    uint64_t n_bytes = atomic_load(&rig.mem.used[PS_MEM_PAGES]);
    (void)rig_request(_i == 0 ? 77 : 1);
    rig.request.stream = 100;
    find_keys(SLOT, KEYS_MAX);
    add_rows(true, SLOT, 0, KEYS_MAX);
    rig.request.push.slots[0].epoch = _i == 1 ? RIG_EPOCH - 1 : RIG_EPOCH;
    struct fake_call *call = deliver(PS_DATA_PUSH, 1u << 20);
    static const enum ps_status wants[] = {PS_ERR_FENCED, PS_ERR_NOT_PRIMARY, PS_OK};
    ck_assert_int_eq(fake_call_reply(call)->push[0].status, wants[_i]);
    fake_call_settle(call);
    ck_assert_uint_eq(atomic_load(&rig.mem.used[PS_MEM_PAGES]), n_bytes);
    rig_close();
}
END_TEST

/* What is reserved for a push that the slot then refuses is given back. */
START_TEST(refused_pushes_do_not_pile_up_memory)
{
    uint64_t n_bytes = 0;
    start(1, &plain);
    for (uint32_t i = 0; i < 1000; i++) {
        (void)rig_request(1);
        rig.request.acked_below = 1; /* Its own sequence, 0, among them. */
        add_rows(true, SLOT, 0, 64);
        struct fake_call *call = deliver(PS_DATA_PUSH, 1u << 20);
        ck_assert_int_eq(fake_call_reply(call)->push[0].status, PS_ERR_INVALID);
        fake_call_settle(call);
        n_bytes = i == 0 ? atomic_load(&rig.mem.used[PS_MEM_PAGES]) : n_bytes;
    }
    ck_assert_uint_eq(atomic_load(&rig.mem.used[PS_MEM_PAGES]), n_bytes);
    rig_close();
}
END_TEST

/* Refuse the k-th allocation, for every k: BUSY and nothing taken, or done; nothing leaks. */
START_TEST(any_refused_allocation_leaves_a_call_to_be_repeated)
{
    bool whole = false;
    for (int64_t k = 0; !whole; k++) {
        ck_assert_int_lt(k, 60);
        start(1, &plain);
        (void)rig_request(1);
        add_rows(true, SLOT, 0, 64);
        add_rows(false, SLOT, 0, 64);
        rig.mem.fail_after = k;
        struct fake_call *call = deliver(PS_DATA_PUSH_PULL, 1u << 20);
        rig.mem.fail_after = -1;
        whole = fake_call_status(call) == PS_OK && fake_call_reply(call)->push[0].status == PS_OK &&
                fake_call_reply(call)->pull[0].status == PS_OK;
        fake_call_settle(call);
        (void)rig_request(1);
        add_rows(true, SLOT, 0, 64);
        call = deliver(PS_DATA_PUSH, 1u << 20);
        ck_assert_int_eq(fake_call_reply(call)->push[0].status, PS_OK);
        fake_call_settle(call);
        apply_by_hand(0, 64);
        expect("once");
        rig_close();
    }
}
END_TEST

START_TEST(gathered_rows_are_booked_until_the_transport_lets_go)
{
    start(1, &plain);
    struct ps_ledger *ledger = rig.svc.ledger;
    struct fake_call *call = pull_call(0, 64);
    ck_assert_uint_ge(atomic_load(&ledger->lent_bytes), 64 * sizeof(want[0]));
    ledger->limits.session_bytes = atomic_load(&ledger->bytes) + sizeof(struct ps_data_call) + 4096;
    struct fake_call *other = pull_call(0, 64);
    ck_assert_int_eq(fake_call_reply(other)->pull[0].status, PS_OK);
    ledger->limits.session_bytes = sizeof(struct ps_data_call) + 2000;
    fake_call_settle(other);
    fake_call_settle(call);
    ck_assert_uint_eq(atomic_load(&ledger->lent_bytes), 0);
    ledger->limits.session_bytes = sizeof(struct ps_data_call) + 1200;
    other = pull_call(0, 64); /* The call fits its account, the rows do not. */
    ck_assert_int_eq(fake_call_reply(other)->pull[0].status, PS_ERR_BUSY);
    ck_assert_uint_gt(fake_call_reply(other)->retry_ms, 0);
    fake_call_settle(other);
    rig_close();
}
END_TEST

/* ---- Admission and age ---------------------------------------------------------------------- */

START_TEST(a_key_gets_its_row_when_it_was_pushed_often_enough)
{
    start(1, &(struct rig_rows){.optim = "sgd", .width = WIDTH, .admit_after = 3});
    ck_assert_int_eq(push(1, 0, 0, 4), PS_OK);
    ck_assert_int_eq(push(1, 1, 0, 4), PS_OK);
    expect("not yet");
    ck_assert_int_eq(push(1, 2, 0, 4), PS_OK);
    apply_by_hand(0, 4);
    expect("the third push is the first one applied");
    uint64_t n_refused = 0;
    struct ps_sparse_stats stats = figures(&n_refused);
    ck_assert_uint_eq(stats.n_dropped, 8);
    ck_assert_uint_eq(stats.n_rows, 4);
    rig_close();
}
END_TEST

/* The age of rows is told by the min clock that the lane knows when a push is proposed. */
START_TEST(rows_that_nobody_pushes_grow_old_and_go)
{
    float first[4][WIDTH];
    start(1, &(struct rig_rows){.optim = "sgd", .width = WIDTH, .expire_after = 2});
    memcpy(first, want, sizeof(first));
    ck_assert_int_eq(push(1, 0, 0, 4), PS_OK);
    apply_by_hand(0, 4);
    rig_min_clock(2);
    ck_assert_int_eq(push(1, 1, 4, 4), PS_OK);
    apply_by_hand(4, 4);
    expect("as old as they may be");
    rig_min_clock(3);
    ck_assert_int_eq(push(1, 2, 4, 4), PS_OK);
    apply_by_hand(4, 4);
    memcpy(want, first, sizeof(first));
    expect("too old");
    uint64_t n_refused = 0;
    struct ps_sparse_stats stats = figures(&n_refused);
    for (uint32_t i = 0; i < 2 * PS_SLOTS && stats.n_rows > 4; i++) {
        stats = figures(&n_refused); /* Each time another slot is swept. */
    }
    ck_assert_uint_eq(stats.n_rows, 4);
    ck_assert_uint_eq(stats.n_expired, 4);
    rig_close();
}
END_TEST

Suite *suite_rows(void)
{
    Suite *suite = suite_create("rows");
    TCase *tcase = tcase_create("rows");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, rows_are_pushed_once_and_their_repeats_are_acknowledged);
    tcase_add_test(tcase, rows_are_the_same_however_their_bytes_arrive);
    tcase_add_test(tcase, blocks_and_rows_share_a_slot_and_a_call);
    tcase_add_test(tcase, fragments_of_rows_are_taken_each_once_and_must_agree);
    tcase_add_loop_test(tcase, a_push_of_rows_is_checked_whole, 0, PS_ARRAY_LEN(spoilt));
    tcase_add_test(tcase, a_value_that_is_not_finite_is_named_by_its_key);
    tcase_add_loop_test(tcase, a_pull_of_rows_is_checked_whole, 0, 3);
    tcase_add_test(tcase, a_rule_that_divides_by_the_rate_is_not_given_one_of_zero);
    tcase_add_test(tcase, weights_of_ftrl_rows_are_those_of_the_rule);
    tcase_add_test(tcase, averaged_steps_know_no_rows);
    tcase_add_test(tcase, known_rows_are_pushed_and_pulled_when_there_is_no_memory_left);
    tcase_add_loop_test(tcase, a_refused_push_takes_nothing_and_may_come_again, 0, 2);
    tcase_add_test(tcase, a_slot_without_memory_for_one_table_takes_nothing_for_any);
    tcase_add_loop_test(tcase, who_may_not_push_and_what_is_in_takes_no_memory, 0, 3);
    tcase_add_test(tcase, refused_pushes_do_not_pile_up_memory);
    tcase_add_test(tcase, any_refused_allocation_leaves_a_call_to_be_repeated);
    tcase_add_test(tcase, gathered_rows_are_booked_until_the_transport_lets_go);
    tcase_add_test(tcase, a_key_gets_its_row_when_it_was_pushed_often_enough);
    tcase_add_test(tcase, rows_that_nobody_pushes_grow_old_and_go);
    suite_add_tcase(suite, tcase);
    return suite;
}
