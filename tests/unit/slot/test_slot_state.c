/*
 * test_slot_state.c — a slot's state as bytes: what is written is read again, means what
 * state.proto says, does not depend on where streams lie, and damage is found or harmless.
 */
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "lib/test_main.h"
#include "slot/slot_state.h"
#include "state.pb-c.h"
#include "suites.h"

#define NUMBER 7u

static struct ps_slot slot;
static struct ps_slot other;
static struct ps_seen_stream streams[PS_SEEN_STREAMS_MAX];
static struct ps_seen_stream other_streams[PS_SEEN_STREAMS_MAX];
static uint8_t bytes[PS_SLOT_STATE_BYTES_MAX];
static uint8_t again[PS_SLOT_STATE_BYTES_MAX];

static void fresh(struct ps_slot *to, struct ps_seen_stream *memory)
{
    memset(memory, 0, sizeof(streams));
    ps_slot_init(to, NUMBER, memory);
}

static enum ps_status read_back(size_t n_bytes)
{
    struct ps_slice slice = {.data = bytes, .n_bytes = n_bytes};
    fresh(&other, other_streams);
    return ps_slot_state_read(&other, ps_cursor_over(&slice, 1), NULL);
}

static void take(uint64_t stream, uint64_t sequence, uint32_t fragment, uint32_t n_fragments,
                 uint64_t acked_below)
{
    struct ps_seen_item item = {.stream = stream,
                                .sequence = sequence,
                                .fragment = fragment,
                                .n_fragments = n_fragments,
                                .owner = 1 + stream % 9,
                                .acked_below = acked_below};
    if (ps_seen_look(&slot.seen, &item) == PS_SEEN_NEW) {
        ps_seen_take(&slot.seen, &item);
    }
}

/* A slot that has seen something of everything, by chance. */
static void fill(uint64_t seed)
{
    struct ps_rng rng = ps_rng_from(seed);
    uint64_t position = 0;
    static struct ps_open_session list[PS_SESSIONS_MAX];
    static struct ps_seen_range ranges[8];
    fresh(&slot, streams);
    for (uint64_t epoch = 2; epoch < 2 + seed % 5; epoch++) {
        ck_assert(ps_slot_propose_epoch(&slot, true, epoch, &position));
        slot.appended += ps_rng_below(&rng, 50);
    }
    uint32_t n_list = (uint32_t)ps_rng_below(&rng, PS_SESSIONS_MAX);
    for (uint32_t i = 0; i < n_list; i++) {
        list[i].number = 2 * i + 1;
        list[i].id.bytes[3] = (uint8_t)i;
    }
    uint32_t n_ranges = (uint32_t)ps_rng_below(&rng, 8);
    for (uint32_t i = 0; i < n_ranges; i++) {
        ranges[i] = (struct ps_seen_range){10 * i + 1, 10 * i + 1 + ps_rng_below(&rng, 5)};
    }
    if (slot.n_epochs > 0) {
        struct ps_record_sessions sessions = {.version = 4, .sessions = list, .n_sessions = n_list};
        ck_assert(ps_slot_propose_sessions(&slot, &sessions, &position));
        struct ps_record_finish finish = {.version = 9, .ranges = ranges, .n_ranges = n_ranges};
        ck_assert(ps_slot_propose_finish(&slot, &finish, &position));
        slot.closed_steps = ps_rng_below(&rng, 3);
    }
    for (uint32_t i = 0; i < 3000; i++) {
        uint64_t stream = 1 + ps_rng_below(&rng, 60);
        stream = ps_rng_below(&rng, 5) == 0 ? PS_SEEN_SESSION_STREAM(stream) : stream;
        uint64_t sequence = ps_rng_below(&rng, 40) * (1 + 30 * ps_rng_below(&rng, 2));
        uint32_t n = ps_rng_below(&rng, 4) == 0 ? 3 : 1;
        take(stream, sequence, (uint32_t)ps_rng_below(&rng, n), n,
             ps_rng_below(&rng, 6) == 0 ? ps_rng_below(&rng, sequence + 1) : 0);
    }
}

static void expect_same(void)
{
    ck_assert_uint_eq(other.epoch, ps_slot_line_epoch(&slot));
    ck_assert_uint_eq(other.appended, slot.appended);
    ck_assert_uint_eq(other.applied, slot.appended);
    ck_assert_uint_eq(other.committed, slot.appended);
    ck_assert(!other.primary);
    ck_assert_uint_eq(other.sessions_version, slot.sessions_version);
    ck_assert_uint_eq(other.finished_version, slot.finished_version);
    ck_assert_uint_eq(other.closed_steps, slot.closed_steps);
    ck_assert_uint_eq(other.n_sessions, slot.n_sessions);
    ck_assert_mem_eq(other.sessions, slot.sessions, slot.n_sessions * sizeof(slot.sessions[0]));
    for (uint64_t stream = 1; stream <= 61; stream++) {
        for (uint64_t sequence = 0; sequence < 2600; sequence += 1 + sequence / 60) {
            for (uint32_t n = 1; n <= 3; n += 2) {
                struct ps_seen_item item = {
                    .stream = stream, .sequence = sequence, .n_fragments = n};
                ck_assert_int_eq(ps_seen_look(&slot.seen, &item), ps_seen_look(&other.seen, &item));
            }
        }
    }
    for (uint64_t epoch = 0; epoch < 9; epoch++) {
        for (uint64_t position = 0; position < 300; position += 7) {
            ck_assert_int_eq(ps_slot_below(&slot, epoch, position),
                             ps_slot_below(&other, epoch, position));
        }
    }
}

START_TEST(what_is_written_is_read_again)
{
    fill(test_seed() * 100 + (uint64_t)_i);
    size_t n_bytes = ps_slot_state_write(&slot, bytes);
    ck_assert_int_eq(read_back(n_bytes), PS_OK);
    expect_same();
    ck_assert_uint_eq(ps_slot_state_write(&other, again), n_bytes);
    ck_assert_mem_eq(again, bytes, n_bytes);
}
END_TEST

/* Streams put in in another order lie elsewhere; the bytes are the same. */
START_TEST(equal_states_give_equal_bytes)
{
    fill(3);
    size_t n_bytes = ps_slot_state_write(&slot, bytes);
    ck_assert_int_eq(read_back(n_bytes), PS_OK);
    static struct ps_seen_stream reversed[PS_SEEN_STREAMS_MAX];
    memset(reversed, 0, sizeof(reversed));
    ps_seen_init(&slot.seen, reversed, PS_SEEN_STREAMS_MAX);
    slot.seen.n_finished = other.seen.n_finished;
    memcpy(slot.seen.finished, other.seen.finished, sizeof(other.seen.finished));
    for (uint32_t i = PS_SEEN_STREAMS_MAX; i > 0; i--) {
        ck_assert(streams[i - 1].key == 0 || ps_seen_put(&slot.seen, &streams[i - 1]));
    }
    ck_assert_uint_eq(ps_slot_state_write(&slot, again), n_bytes);
    ck_assert_mem_eq(again, bytes, n_bytes);
}
END_TEST

START_TEST(the_bytes_are_the_message_of_the_proto)
{
    fill(4);
    size_t n_bytes = ps_slot_state_write(&slot, bytes);
    Ps__V1__SlotState *state = ps__v1__slot_state__unpack(NULL, n_bytes, bytes);
    ck_assert_ptr_nonnull(state);
    ck_assert_uint_eq(state->slot, NUMBER);
    ck_assert_uint_eq(state->epoch, ps_slot_line_epoch(&slot));
    ck_assert_uint_eq(state->position, slot.appended);
    ck_assert_uint_eq(state->n_epochs, slot.n_epochs);
    ck_assert_uint_eq(state->epochs[1]->first, slot.epochs[1].first);
    ck_assert_uint_eq(state->sessions_version, 4);
    ck_assert_uint_eq(state->n_sessions, slot.n_sessions);
    ck_assert_uint_eq(state->sessions[1]->number, 3);
    ck_assert_uint_eq(state->sessions[1]->session.len, 16);
    ck_assert_uint_eq(state->finished_version, 9);
    ck_assert_uint_eq(state->n_finished, slot.seen.n_finished);
    ck_assert_uint_eq(state->closed_steps, slot.closed_steps);
    ck_assert_uint_gt(state->n_streams, 50);
    for (size_t i = 1; i < state->n_streams; i++) {
        ck_assert_uint_lt(state->streams[i - 1]->key, state->streams[i]->key);
    }
    uint32_t n_windows = 0;
    for (size_t i = 0; i < state->n_streams; i++) {
        const Ps__V1__SlotStream *stream = state->streams[i];
        for (uint64_t k = 0; k < 8 * stream->window.len; k++) {
            struct ps_seen_item item = {
                .stream = stream->key, .sequence = stream->low + k, .n_fragments = 1};
            bool taken = (stream->window.data[k / 8] >> (k % 8) & 1) != 0;
            ck_assert_int_eq(taken, ps_seen_look(&slot.seen, &item) == PS_SEEN_TAKEN);
            n_windows++;
        }
    }
    ck_assert_uint_gt(n_windows, 0);
    ck_assert_uint_eq(ps__v1__slot_state__get_packed_size(state), n_bytes);
    ps__v1__slot_state__pack(state, again);
    ck_assert_mem_eq(again, bytes, n_bytes);
    ps__v1__slot_state__free_unpacked(state, NULL);
}
END_TEST

/* Every bound reached and every number long: the room is enough. */
START_TEST(the_largest_state_fits)
{
    fresh(&slot, streams);
    slot.appended = UINT64_MAX - 1;
    slot.n_epochs = PS_SLOT_EPOCHS_MAX;
    for (uint32_t i = 0; i < PS_SLOT_EPOCHS_MAX; i++) {
        slot.epochs[i] = (struct ps_slot_epoch){UINT64_MAX - 100 + i, UINT64_MAX - 100 + i};
    }
    slot.n_sessions = PS_SESSIONS_MAX;
    for (uint32_t i = 0; i < PS_SESSIONS_MAX; i++) {
        slot.sessions[i].number = UINT64_MAX - PS_SESSIONS_MAX + i;
    }
    slot.sessions_version = slot.finished_version = slot.closed_steps = UINT64_MAX;
    slot.seen.n_finished = PS_SEEN_FINISHED_MAX;
    for (uint64_t i = 0; i < PS_SEEN_FINISHED_MAX; i++) {
        uint64_t first = PS_SEEN_LEASES_END - 3 * PS_SEEN_FINISHED_MAX + 2 * i;
        slot.seen.finished[i] = (struct ps_seen_range){first, first};
    }
    for (uint64_t i = 0; i < PS_SEEN_STREAMS_MAX; i++) {
        struct ps_seen_stream stream = {
            .key = UINT64_MAX - i, .owner = UINT64_MAX, .low = PS_SEEN_SEQUENCES_MAX};
        for (uint32_t k = 0; k < PS_SEEN_PARTIALS_MAX; k++) {
            stream.partials[k] =
                (struct ps_seen_partial){PS_SEEN_SEQUENCES_MAX + 1 + k, UINT64_MAX - 1, 64};
        }
        memset(stream.window, 0xff, sizeof(stream.window));
        uint64_t free_bits = 0x1f; /* `low`, and the partials behind it. */
        stream.window[PS_SEEN_SEQUENCES_MAX % PS_SEQUENCES_OPEN_MAX / 64] &= ~free_bits;
        ck_assert(ps_seen_put(&slot.seen, &stream));
    }
    size_t n_bytes = ps_slot_state_write(&slot, bytes);
    ck_assert_uint_gt(n_bytes, PS_SLOT_STATE_BYTES_MAX / 2);
    ck_assert_int_eq(read_back(n_bytes), PS_OK);
    ck_assert_uint_eq(ps_slot_state_write(&other, again), n_bytes);
    ck_assert_mem_eq(again, bytes, n_bytes);
}
END_TEST

/*
 * Cut anywhere, and one or two bits of each byte turned, all eight in turn (the fuzz target has the
 * rest): refused, or a state that is valid.
 */
START_TEST(damaged_states_are_refused_or_valid)
{
    fill(6);
    for (uint32_t i = 0; i < PS_SEEN_STREAMS_MAX; i++) { /* A few streams are enough. */
        if (streams[i].key > 12 && streams[i].key < PS_SEEN_LEASES_END) {
            ps_seen_drop(&slot.seen, streams[i].key);
            i = 0;
        }
    }
    size_t n_bytes = ps_slot_state_write(&slot, bytes);
    uint32_t n_refused = 0;
    for (size_t n = 0; n < n_bytes; n++) {
        n_refused += read_back(n) != PS_OK;
    }
    ck_assert_uint_gt(n_refused, n_bytes / 2);
    for (size_t bit = 0; bit < 8 * n_bytes; bit += 7) {
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        if (read_back(n_bytes) == PS_OK) {
            size_t n_again = ps_slot_state_write(&other, again);
            struct ps_slice slice = {.data = again, .n_bytes = n_again};
            fresh(&slot, streams);
            ck_assert_int_eq(ps_slot_state_read(&slot, ps_cursor_over(&slice, 1), NULL), PS_OK);
        }
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}
END_TEST

START_TEST(a_new_generation_has_leases_and_no_sessions)
{
    fill(8);
    size_t n_bytes = ps_slot_state_write(&slot, bytes);
    ck_assert_int_eq(read_back(n_bytes), PS_OK);
    ps_slot_state_forget(&other);
    ck_assert_uint_eq(other.n_sessions, 0);
    ck_assert_uint_eq(other.sessions_version, 0);
    ck_assert_uint_eq(other.finished_version, 0);
    ck_assert_uint_eq(other.seen.n_finished, slot.seen.n_finished);
    uint32_t n_leases = 0;
    for (uint32_t i = 0; i < PS_SEEN_STREAMS_MAX; i++) {
        ck_assert_uint_lt(other_streams[i].key, PS_SEEN_LEASES_END);
        ck_assert_uint_eq(other_streams[i].owner, 0);
        n_leases += other_streams[i].key != 0;
        n_leases -= streams[i].key != 0 && streams[i].key < PS_SEEN_LEASES_END;
    }
    ck_assert_uint_eq(n_leases, 0);
}
END_TEST

/* A slot may be cut after a lease was finished that the record of the job lends again. */
START_TEST(a_lease_that_only_the_slot_knows_as_finished_stays_finished)
{
    struct ps_seen_range known = {1, 3};
    struct ps_seen_range all = {1, 4};
    struct ps_record_finish noted = {.version = 1, .ranges = &known, .n_ranges = 1};
    struct ps_seen_item item = {.stream = 4, .n_fragments = 1};
    fill(8);
    ck_assert(ps_seen_finish(&slot.seen, &all, 1));
    ck_assert_int_eq(read_back(ps_slot_state_write(&slot, bytes)), PS_OK);
    ps_slot_state_forget(&other);
    uint64_t position = 0;
    ck_assert(ps_slot_propose_finish(&other, &noted, &position));
    ck_assert_int_eq(ps_seen_look(&other.seen, &item), PS_SEEN_TAKEN);
}
END_TEST

Suite *suite_slot_state(void)
{
    Suite *suite = suite_create("slot_state");
    TCase *tcase = tcase_create("state");
    tcase_set_timeout(tcase, 120); /* Thousands of states. */
    tcase_add_loop_test(tcase, what_is_written_is_read_again, 0, 20);
    tcase_add_test(tcase, equal_states_give_equal_bytes);
    tcase_add_test(tcase, the_bytes_are_the_message_of_the_proto);
    tcase_add_test(tcase, the_largest_state_fits);
    tcase_add_test(tcase, damaged_states_are_refused_or_valid);
    tcase_add_test(tcase, a_new_generation_has_leases_and_no_sessions);
    tcase_add_test(tcase, a_lease_that_only_the_slot_knows_as_finished_stays_finished);
    suite_add_tcase(suite, tcase);
    return suite;
}
