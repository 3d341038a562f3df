/*
 * test_seen_core.c — exactly once, against a naive model that remembers everything.
 *
 * The table of streams is tiny, so that keys collide, chains wrap and closing up is exercised at
 * every turn; sequences crowd at both edges of the window.
 */
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "slot/seen_core.h"
#include "suites.h"

#define WINDOW    PS_SEQUENCES_OPEN_MAX
#define STREAMS   5u
#define KEYS      9u
#define SEQUENCES 6000u

static struct ps_seen seen;
static struct ps_seen_stream streams[STREAMS];

/* ---- The model ------------------------------------------------------------------------------ */

struct model_sequence {
    uint64_t fragments;
    uint32_t n_fragments; /* 0: nothing of it has come. */
    bool whole;
};

struct model_stream {
    bool exists;
    bool finished;
    struct model_sequence sequences[SEQUENCES];
};

static struct model_stream model[KEYS + 1]; /* By key, from 1. */

static uint64_t low_of(const struct model_stream *stream)
{
    uint64_t low = 0;
    while (stream->sequences[low].whole) {
        low++;
    }
    return low;
}

static uint32_t n_existing(void)
{
    uint32_t n = 0;
    for (uint32_t key = 1; key <= KEYS; key++) {
        n += model[key].exists;
    }
    return n;
}

static uint32_t n_partial(const struct model_stream *stream)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        n += stream->sequences[s].n_fragments != 0 && !stream->sequences[s].whole;
    }
    return n;
}

/* The stream once all below `below` is acknowledged. */
static struct model_stream *acked(struct model_stream *stream, uint64_t below)
{
    stream->exists = stream->exists || below > 0;
    for (uint64_t s = 0; s < below; s++) {
        stream->sequences[s].whole = true;
    }
    return stream;
}

static enum ps_seen_verdict expected(const struct ps_seen_item *item)
{
    static struct model_stream copy;
    if (item->acked_below > item->sequence) {
        return PS_SEEN_BAD;
    }
    if (!model[item->stream].exists && n_existing() == STREAMS && !model[item->stream].finished) {
        return PS_SEEN_BUSY;
    }
    copy = model[item->stream];
    const struct model_stream *stream = &copy;
    const struct model_sequence *sequence = &stream->sequences[item->sequence];
    if (stream->finished || (stream->exists && sequence->whole)) {
        return PS_SEEN_TAKEN;
    }
    (void)acked(&copy, item->acked_below);
    if (item->sequence >= low_of(stream) + WINDOW) {
        return PS_SEEN_BUSY;
    }
    if (sequence->n_fragments != 0) {
        if (sequence->n_fragments != item->n_fragments) {
            return PS_SEEN_BAD;
        }
        return (sequence->fragments >> item->fragment & 1) != 0 ? PS_SEEN_TAKEN : PS_SEEN_NEW;
    }
    return item->n_fragments == 1 || n_partial(stream) < PS_SEEN_PARTIALS_MAX ? PS_SEEN_NEW
                                                                              : PS_SEEN_BUSY;
}

static void model_take(const struct ps_seen_item *item)
{
    struct model_stream *stream = acked(&model[item->stream], item->acked_below);
    struct model_sequence *sequence = &stream->sequences[item->sequence];
    stream->exists = true;
    sequence->n_fragments = item->n_fragments;
    ck_assert((sequence->fragments >> item->fragment & 1) == 0); /* Exactly once. */
    sequence->fragments |= 1ull << item->fragment;
    uint64_t all = item->n_fragments == 64 ? UINT64_MAX : (1ull << item->n_fragments) - 1;
    sequence->whole = sequence->fragments == all;
}

/* ---- Chance --------------------------------------------------------------------------------- */

static struct ps_seen_item chance_item(struct ps_rng *rng)
{
    static const uint32_t counts[] = {1, 1, 1, 2, 3, 64};
    struct ps_seen_item item = {.stream = 1 + ps_rng_below(rng, KEYS),
                                .n_fragments = counts[ps_rng_below(rng, 6)]};
    uint64_t low = low_of(&model[item.stream]);
    switch (ps_rng_below(rng, 4)) {
    case 0: item.sequence = low + ps_rng_below(rng, 4); break;
    case 1: item.sequence = low + WINDOW - 2 + ps_rng_below(rng, 4); break;
    case 2: item.sequence = ps_rng_below(rng, low + 1); break;
    default: item.sequence = low + ps_rng_below(rng, WINDOW); break;
    }
    if (ps_rng_below(rng, 8) != 0 && model[item.stream].sequences[item.sequence].n_fragments > 0) {
        item.n_fragments = model[item.stream].sequences[item.sequence].n_fragments;
    }
    item.fragment = (uint32_t)ps_rng_below(rng, item.n_fragments);
    if (ps_rng_below(rng, 16) == 0) {
        uint64_t below = low + ps_rng_below(rng, 6);
        below += ps_rng_below(rng, 30) == 0 ? WINDOW : 0; /* Beyond the whole window. */
        item.acked_below = below < SEQUENCES - 2 * WINDOW ? below : 0;
        if (ps_rng_below(rng, 4) != 0 && item.sequence < item.acked_below) {
            item.sequence = item.acked_below + ps_rng_below(rng, 4);
        }
    }
    return item;
}

/* Finish some more keys by chance: ranges of neighbours that lie apart. */
static void finish_some(struct ps_rng *rng)
{
    for (uint64_t i = ps_rng_below(rng, 4); i > 0; i--) {
        model[1 + ps_rng_below(rng, KEYS)].finished = true;
    }
    struct ps_seen_range ranges[KEYS];
    uint32_t n = 0;
    for (uint64_t key = 1; key <= KEYS; key++) {
        if (!model[key].finished) {
            continue;
        }
        model[key].exists = false;
        if (n > 0 && ranges[n - 1].last + 1 == key) {
            ranges[n - 1].last = key;
        } else {
            ranges[n++] = (struct ps_seen_range){.first = key, .last = key};
        }
    }
    ck_assert(ps_seen_finish(&seen, ranges, n));
}

static void step(struct ps_rng *rng)
{
    uint64_t key = 1 + ps_rng_below(rng, KEYS);
    uint64_t dice = ps_rng_below(rng, 1000);
    if (dice < 20) {
        ps_seen_drop(&seen, key);
        bool finished = model[key].finished;
        memset(&model[key], 0, sizeof(model[key]));
        model[key].finished = finished;
    } else if (dice < 22) {
        finish_some(rng);
    }
}

/* Every stream of the table can be found from its home: the chains have no holes. */
static void check_table(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < STREAMS; i++) {
        n += streams[i].key != 0;
        for (uint32_t k = 0; k < i; k++) {
            ck_assert(streams[i].key == 0 || streams[i].key != streams[k].key);
        }
    }
    ck_assert_uint_eq(n, n_existing());
}

START_TEST(nothing_is_taken_twice_and_nothing_refused_that_fits)
{
    uint64_t seed = test_seed();
    for (uint64_t round = 0; round < 60; round++) {
        struct ps_rng rng = ps_rng_from(seed * 1000 + round);
        memset(streams, 0, sizeof(streams));
        memset(model, 0, sizeof(model));
        ps_seen_init(&seen, streams, STREAMS);
        for (int i = 0; i < 1500; i++) {
            step(&rng);
            struct ps_seen_item item = chance_item(&rng);
            enum ps_seen_verdict want = expected(&item);
            enum ps_seen_verdict got = ps_seen_look(&seen, &item);
            ck_assert_msg(got == want,
                          "seed %" PRIu64 " round %" PRIu64 " step %d: stream %" PRIu64
                          " sequence %" PRIu64 " fragment %u of %u: verdict %d, not %d",
                          seed, round, i, item.stream, item.sequence, item.fragment,
                          item.n_fragments, (int)got, (int)want);
            if (got == PS_SEEN_NEW) {
                ps_seen_take(&seen, &item);
                model_take(&item);
                ck_assert_int_eq(ps_seen_look(&seen, &item), PS_SEEN_TAKEN);
            }
            check_table();
        }
    }
}
END_TEST

/* ---- Single rules --------------------------------------------------------------------------- */

static void fresh(void)
{
    memset(streams, 0, sizeof(streams));
    ps_seen_init(&seen, streams, STREAMS);
}

static enum ps_seen_verdict look_acked(uint64_t stream, uint64_t sequence, uint64_t acked_below)
{
    struct ps_seen_item item = {
        .stream = stream, .sequence = sequence, .n_fragments = 1, .acked_below = acked_below};
    return ps_seen_look(&seen, &item);
}

static enum ps_seen_verdict look(uint64_t stream, uint64_t sequence)
{
    return look_acked(stream, sequence, 0);
}

static enum ps_seen_verdict look_and_take_acked(uint64_t stream, uint64_t sequence,
                                                uint64_t acked_below)
{
    struct ps_seen_item item = {
        .stream = stream, .sequence = sequence, .n_fragments = 1, .acked_below = acked_below};
    enum ps_seen_verdict verdict = ps_seen_look(&seen, &item);
    if (verdict == PS_SEEN_NEW) {
        ps_seen_take(&seen, &item);
    }
    return verdict;
}

static enum ps_seen_verdict look_and_take(uint64_t stream, uint64_t sequence)
{
    return look_and_take_acked(stream, sequence, 0);
}

START_TEST(the_window_moves_with_its_lowest_gap)
{
    fresh();
    ck_assert_int_eq(look_and_take(7, WINDOW - 1), PS_SEEN_NEW);
    ck_assert_int_eq(look(7, WINDOW), PS_SEEN_BUSY);
    for (uint64_t s = 1; s < WINDOW - 1; s++) {
        ck_assert_int_eq(look_and_take(7, s), PS_SEEN_NEW);
    }
    ck_assert_int_eq(look(7, WINDOW), PS_SEEN_BUSY); /* 0 is missing still. */
    ck_assert_int_eq(look_and_take(7, 0), PS_SEEN_NEW);
    ck_assert_int_eq(look(7, WINDOW - 1), PS_SEEN_TAKEN);
    ck_assert_int_eq(look_and_take(7, 2 * WINDOW - 1), PS_SEEN_NEW);
    ck_assert_int_eq(look(7, 2 * WINDOW), PS_SEEN_BUSY);
    ck_assert_int_eq(look(7, WINDOW), PS_SEEN_NEW);
}
END_TEST

START_TEST(a_new_holder_may_start_far_above_the_window)
{
    fresh();
    ck_assert_int_eq(look(7, 5 * WINDOW), PS_SEEN_BUSY);
    ck_assert_int_eq(look_and_take_acked(7, 5 * WINDOW, 5 * WINDOW), PS_SEEN_NEW);
    ck_assert_int_eq(look(7, 5 * WINDOW - 1), PS_SEEN_TAKEN);
    /* Old news takes nothing back. */
    ck_assert_int_eq(look_and_take_acked(7, 5 * WINDOW + 1, 3), PS_SEEN_NEW);
    ck_assert_int_eq(look(7, 5 * WINDOW), PS_SEEN_TAKEN);
    /* And nobody counts the way up there. */
    ck_assert_int_eq(look_and_take_acked(7, 1ull << 60, 1ull << 60), PS_SEEN_NEW);
    ck_assert_int_eq(look(7, (1ull << 60) - 1), PS_SEEN_TAKEN);
    ck_assert_int_eq(look(7, (1ull << 60) + 1 + WINDOW), PS_SEEN_BUSY);
}
END_TEST

/* Only what makes a record leaves a trace, so that a log gives the same state. */
START_TEST(looking_acknowledges_nothing)
{
    fresh();
    ck_assert_int_eq(look_and_take(7, 0), PS_SEEN_NEW);
    ck_assert_int_eq(look_acked(7, WINDOW + 1, 9), PS_SEEN_NEW);
    ck_assert_int_eq(look(7, 5), PS_SEEN_NEW);
    ck_assert_int_eq(look(7, WINDOW + 1), PS_SEEN_BUSY);
}
END_TEST

START_TEST(a_finished_lease_is_taken_for_ever)
{
    fresh();
    struct ps_seen_range ranges[] = {{2, 4}, {6, 6}, {9, UINT64_MAX >> 1}};
    ck_assert_int_eq(look_and_take(3, 0), PS_SEEN_NEW);
    ck_assert_int_eq(look_and_take(5, 0), PS_SEEN_NEW);
    ck_assert(ps_seen_finish(&seen, ranges, 3));
    static const uint64_t done[] = {2, 3, 4, 6, 9, 10, UINT64_MAX >> 1};
    for (size_t i = 0; i < PS_ARRAY_LEN(done); i++) {
        ck_assert_int_eq(look(done[i], 0), PS_SEEN_TAKEN);
        ck_assert_int_eq(look(done[i], 1ull << 40), PS_SEEN_TAKEN);
        ck_assert_int_eq(look_acked(done[i], 7, 5), PS_SEEN_TAKEN);
    }
    ck_assert_int_eq(look(1, 0), PS_SEEN_NEW);
    ck_assert_int_eq(look(5, 1), PS_SEEN_NEW);
    ck_assert_int_eq(look(7, 0), PS_SEEN_NEW);
    ck_assert_int_eq(look(PS_SEEN_SESSION_STREAM(9), 0), PS_SEEN_NEW);
    uint32_t n_streams = 0;
    for (uint32_t i = 0; i < STREAMS; i++) {
        n_streams += streams[i].key != 0;
    }
    ck_assert_uint_eq(n_streams, 1); /* Lease 5 alone. */
}
END_TEST

START_TEST(a_shorter_list_takes_no_finish_back)
{
    fresh();
    struct ps_seen_range more[] = {{1, 4}, {8, 9}, {20, 20}};
    struct ps_seen_range less[] = {{1, 3}, {5, 5}, {10, 12}, {19, UINT64_MAX}};
    ck_assert(ps_seen_finish(&seen, more, 3));
    ck_assert(ps_seen_finish(&seen, less, 4));
    for (uint64_t key = 1; key < 25; key++) {
        bool open = key == 6 || key == 7 || (key > 12 && key < 19);
        ck_assert_int_eq(look(key, 0), open ? PS_SEEN_NEW : PS_SEEN_TAKEN);
    }
    ck_assert_uint_eq(seen.n_finished, 3);
    ck_assert(ps_seen_finish(&seen, NULL, 0));
    ck_assert_uint_eq(seen.n_finished, 3);
}
END_TEST

START_TEST(too_many_ranges_change_nothing)
{
    fresh();
    static struct ps_seen_range ranges[PS_SEEN_FINISHED_MAX + 1];
    for (uint32_t i = 0; i <= PS_SEEN_FINISHED_MAX; i++) {
        ranges[i] = (struct ps_seen_range){.first = 2 + 2ull * i, .last = 2 + 2ull * i};
    }
    ck_assert(!ps_seen_finish(&seen, ranges, PS_SEEN_FINISHED_MAX + 1));
    ck_assert_int_eq(look(2, 0), PS_SEEN_NEW);
    ck_assert(ps_seen_finish(&seen, ranges, PS_SEEN_FINISHED_MAX));
    for (uint64_t key = 1; key <= 2 * PS_SEEN_FINISHED_MAX + 1; key++) {
        ck_assert_int_eq(look(key, 0), key % 2 == 0 ? PS_SEEN_TAKEN : PS_SEEN_NEW);
    }
}
END_TEST

/* clang-format off */
static const struct {
    const char *name;
    struct ps_seen_item item;
} lies[] = {
    {"no stream",                  {.stream = 0, .n_fragments = 1}},
    {"no fragments",               {.stream = 1, .n_fragments = 0}},
    {"a fragment beyond the last", {.stream = 1, .fragment = 1, .n_fragments = 1}},
    {"too many fragments",         {.stream = 1, .n_fragments = PS_FRAGMENTS_MAX + 1}},
    {"a sequence near the end",    {.stream = 1, .sequence = UINT64_MAX, .n_fragments = 1}},
    {"acknowledged and sent",      {.stream = 1, .sequence = 4, .n_fragments = 1, .acked_below = 5}},
    {"the first absurd sequence",  {.stream = 1, .sequence = PS_SEEN_SEQUENCES_MAX, .n_fragments = 1}},
};
/* clang-format on */

START_TEST(contradictions_are_bad)
{
    fresh();
    ck_assert_msg(ps_seen_look(&seen, &lies[_i].item) == PS_SEEN_BAD, "%s", lies[_i].name);
}
END_TEST

/* A unit that is cut otherwise the second time would be applied in part twice. */
START_TEST(fragments_of_another_cut_are_bad)
{
    fresh();
    struct ps_seen_item half = {.stream = 1, .sequence = 4, .fragment = 0, .n_fragments = 2};
    ps_seen_take(&seen, &half);
    struct ps_seen_item whole = {.stream = 1, .sequence = 4, .n_fragments = 1};
    ck_assert_int_eq(ps_seen_look(&seen, &whole), PS_SEEN_BAD);
    struct ps_seen_item third = {.stream = 1, .sequence = 4, .fragment = 2, .n_fragments = 3};
    ck_assert_int_eq(ps_seen_look(&seen, &third), PS_SEEN_BAD);
    half.fragment = 1;
    ck_assert_int_eq(ps_seen_look(&seen, &half), PS_SEEN_NEW);
    ps_seen_take(&seen, &half);
    ck_assert_int_eq(ps_seen_look(&seen, &whole), PS_SEEN_TAKEN);
}
END_TEST

START_TEST(what_was_not_found_new_cannot_be_taken)
{
    fresh();
    struct ps_seen_item item = {.stream = 1, .n_fragments = 1};
    ps_seen_take(&seen, &item);
    ps_seen_take(&seen, &item); /* Must abort. */
}
END_TEST

START_TEST(a_session_has_a_few_streams_and_leaves_room_for_the_others)
{
    static struct ps_seen_stream many[4 * PS_SEEN_STREAMS_EACH];
    ps_seen_init(&seen, many, PS_ARRAY_LEN(many));
    struct ps_seen_item item = {.n_fragments = 1, .owner = 3};
    for (uint64_t key = 1; key <= PS_SEEN_STREAMS_EACH; key++) {
        item.stream = key;
        ck_assert_int_eq(ps_seen_look(&seen, &item), PS_SEEN_NEW);
        ps_seen_take(&seen, &item);
    }
    item.stream = 100;
    ck_assert_int_eq(ps_seen_look(&seen, &item), PS_SEEN_BUSY);
    item.sequence = 5;
    item.acked_below = 5;
    ck_assert_int_eq(ps_seen_look(&seen, &item), PS_SEEN_BUSY); /* Nor by the back door. */
    item.owner = 4;
    ck_assert_int_eq(ps_seen_look(&seen, &item), PS_SEEN_NEW);
    item = (struct ps_seen_item){.stream = 1, .sequence = 1, .n_fragments = 1, .owner = 4};
    ps_seen_take(&seen, &item); /* The lease has gone to another. */
    item = (struct ps_seen_item){.stream = 100, .n_fragments = 1, .owner = 3};
    ck_assert_int_eq(ps_seen_look(&seen, &item), PS_SEEN_NEW);
}
END_TEST

Suite *suite_seen_core(void)
{
    Suite *suite = suite_create("seen_core");
    TCase *tcase = tcase_create("seen");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, nothing_is_taken_twice_and_nothing_refused_that_fits);
    tcase_add_test(tcase, the_window_moves_with_its_lowest_gap);
    tcase_add_test(tcase, a_new_holder_may_start_far_above_the_window);
    tcase_add_test(tcase, looking_acknowledges_nothing);
    tcase_add_test(tcase, a_finished_lease_is_taken_for_ever);
    tcase_add_test(tcase, a_shorter_list_takes_no_finish_back);
    tcase_add_test(tcase, too_many_ranges_change_nothing);
    tcase_add_loop_test(tcase, contradictions_are_bad, 0, PS_ARRAY_LEN(lies));
    tcase_add_test(tcase, fragments_of_another_cut_are_bad);
    tcase_add_test(tcase, a_session_has_a_few_streams_and_leaves_room_for_the_others);
    tcase_add_test_raise_signal(tcase, what_was_not_found_new_cannot_be_taken, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}
