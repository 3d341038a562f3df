/*
 * test_pack.c — cold messages through protobuf-c with our memory: budgets, slices, damage.
 */
#include <string.h>

#include "base/limits.h"
#include "coordinator.pb-c.h"
#include "cut.h"
#include "lib/test_main.h"
#include "suites.h"
#include "wire/pack.h"

static struct ps_mem mem;
static uint8_t bytes[4096];
static struct cut cut;

/* A DescribeReply with something in every kind of field. */
static size_t make_message(void)
{
    static char name[] = "worker 1";
    static uint8_t id[16] = {7};
    Ps__V1__Member member = PS__V1__MEMBER__INIT;
    Ps__V1__Member *members[] = {&member, &member};
    Ps__V1__DescribeReply reply = PS__V1__DESCRIBE_REPLY__INIT;
    member.name = name;
    member.clock = 12;
    reply.cluster_id.data = id;
    reply.cluster_id.len = sizeof(id);
    reply.min_clock = 300;
    reply.n_members = 2;
    reply.members = members;
    bool fits = false;
    size_t n = ps_wire_pack(&reply.base, bytes, sizeof(bytes), &fits);
    ck_assert(fits && n > 0);
    bool fits_less = true;
    ck_assert_uint_eq(ps_wire_pack(&reply.base, bytes, n - 1, &fits_less), 0);
    ck_assert(!fits_less);
    return ps_wire_pack(&reply.base, bytes, n, &fits);
}

static enum ps_status why; /* Of the last unpack. */

static Ps__V1__DescribeReply *unpack(struct ps_cursor c)
{
    return (Ps__V1__DescribeReply *)ps_wire_unpack_why(&ps__v1__describe_reply__descriptor,
                                                       c.slices, c.n_slices, &mem, &why);
}

START_TEST(what_was_packed_is_unpacked_from_any_slices)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    size_t n = make_message();
    ps_mem_init(&mem);
    for (int i = 0; i < 200; i++) {
        Ps__V1__DescribeReply *reply = unpack(cut_by_chance(&cut, bytes, n, &rng));
        ck_assert_ptr_nonnull(reply);
        ck_assert_uint_eq(reply->min_clock, 300);
        ck_assert_uint_eq(reply->n_members, 2);
        ck_assert_str_eq(reply->members[1]->name, "worker 1");
        ck_assert_uint_gt(mem.used[PS_MEM_CALLS], 0);
        ps_wire_unpacked_free(&reply->base);
        ck_assert_uint_eq(mem.used[PS_MEM_CALLS], 0);
    }
}
END_TEST

START_TEST(an_empty_message_is_one)
{
    ps_mem_init(&mem);
    Ps__V1__DescribeReply *reply = unpack(ps_cursor_over(NULL, 0));
    ck_assert_ptr_nonnull(reply);
    ck_assert_uint_eq(reply->n_members, 0);
    ps_wire_unpacked_free(&reply->base);
    ps_wire_unpacked_free(NULL);
    ck_assert_uint_eq(mem.used[PS_MEM_CALLS], 0);
}
END_TEST

START_TEST(damage_gives_null_and_no_leak)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    size_t n = make_message();
    ps_mem_init(&mem);
    uint32_t n_refused = 0;
    for (size_t at = 0; at < n; at++) {
        Ps__V1__DescribeReply *reply = unpack(cut_by_chance(&cut, bytes, at, &rng));
        n_refused += reply == NULL;
        if (reply != NULL) {
            ps_wire_unpacked_free(&reply->base);
        }
        ck_assert_uint_eq(mem.used[PS_MEM_CALLS], 0);
    }
    ck_assert_uint_gt(n_refused, n / 2);
}
END_TEST

START_TEST(a_refused_allocation_gives_null_and_no_leak)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    size_t n = make_message();
    bool done = false;
    for (int64_t k = 0; !done; k++) {
        ck_assert_int_lt(k, 50);
        ps_mem_init(&mem);
        mem.fail_after = k;
        Ps__V1__DescribeReply *reply = unpack(cut_by_chance(&cut, bytes, n, &rng));
        done = reply != NULL;
        ck_assert_int_eq(why, done ? PS_OK : PS_ERR_NOMEM);
        if (reply != NULL) {
            ps_wire_unpacked_free(&reply->base);
        }
        ck_assert_uint_eq(mem.used[PS_MEM_CALLS], 0);
    }
}
END_TEST

START_TEST(a_message_longer_than_a_call_is_refused_unread)
{
    ps_mem_init(&mem);
    struct ps_slice slice = {.data = bytes, .n_bytes = (size_t)PS_MESSAGE_BYTES_MAX + 1};
    ck_assert_ptr_null(unpack(ps_cursor_over(&slice, 1))); /* Reading it would run out of bounds. */
    ck_assert_int_eq(why, PS_ERR_CORRUPT);
}
END_TEST

/* ---- What a message becomes in memory ------------------------------------------------------- */

/* Fill `to` with fields of number `field` and wire type 2 whose content is `inner`. */
static void fill_fields(uint8_t *to, size_t n_bytes, uint32_t field, const uint8_t *inner,
                        size_t n_inner)
{
    for (size_t at = 0; at + 2 + n_inner <= n_bytes; at += 2 + n_inner) {
        to[at] = (uint8_t)(field << 3 | 2);
        to[at + 1] = (uint8_t)n_inner;
        if (n_inner > 0) {
            memcpy(to + at + 2, inner, n_inner);
        }
    }
}

static const struct {
    const char *name;
    const ProtobufCMessageDescriptor *type;
    uint32_t field;
    uint8_t inner[8];
    size_t n_inner;
} bombs[] = {
    {"empty members", &ps__v1__describe_reply__descriptor, 11, {0}, 0},
    {"empty sessions", &ps__v1__open_sessions__descriptor, 2, {0}, 0},
    {"ranges of a byte", &ps__v1__finished_leases__descriptor, 2, {8, 1}, 2},
    {"unknown fields", &ps__v1__tick_request__descriptor, 15, {0}, 0},
    {"an empty report, again and again", &ps__v1__tick_request__descriptor, 1, {0}, 0},
    {"unknown fields of a report", &ps__v1__tick_request__descriptor, 1, {122, 0, 122, 0}, 4},
};

/* The heap sees more than the budget only by the costs of large blocks and ends of chunks. */
START_TEST(a_message_of_nothings_ends_at_its_budget)
{
    static const size_t sizes[] = {64, 4096, 64 << 10, 1 << 20, 4 << 20};
    static uint8_t message[4 << 20];
    for (size_t i = 0; i < PS_ARRAY_LEN(sizes); i++) {
        size_t n = sizes[i] - sizes[i] % (2 + bombs[_i].n_inner);
        fill_fields(message, n, bombs[_i].field, bombs[_i].inner, bombs[_i].n_inner);
        ps_mem_init(&mem);
        size_t n_budget = 4 * n + ((size_t)256 << 10); /* As the README has it. */
        mem.limit[PS_MEM_CALLS] = n_budget + n_budget / 8;
        struct ps_slice slice = {.data = message, .n_bytes = n};
        ProtobufCMessage *read = ps_wire_unpack(bombs[_i].type, &slice, 1, &mem);
        uint64_t n_calls = mem.n_calls;
        ps_wire_unpacked_free(read);
        ck_assert_uint_eq(mem.used[PS_MEM_CALLS], 0);
        mem.limit[PS_MEM_CALLS] = 0; /* It ended by its own budget, not by this one. */
        read = ps_wire_unpack(bombs[_i].type, &slice, 1, &mem);
        ck_assert_uint_eq(mem.n_calls, 2 * n_calls);
        ps_wire_unpacked_free(read);
    }
}
END_TEST

static size_t pack_as_slice(const ProtobufCMessage *message, struct ps_slice *ret)
{
    static uint8_t large[1 << 20];
    bool fits = false;
    size_t n = ps_wire_pack(message, large, sizeof(large), &fits);
    ck_assert(fits);
    *ret = (struct ps_slice){.data = large, .n_bytes = n};
    return n;
}

/* The lists of the largest messages that we send ourselves, with little in each part. */
static struct {
    Ps__V1__Member members[2 * PS_SESSIONS_MAX];
    Ps__V1__Member *member_list[2 * PS_SESSIONS_MAX];
    Ps__V1__Table tables[PS_TABLES_MAX];
    Ps__V1__Table *table_list[PS_TABLES_MAX];
    Ps__V1__OpenSession sessions[PS_SESSIONS_MAX];
    Ps__V1__OpenSession *session_list[PS_SESSIONS_MAX];
    Ps__V1__LeaseRange ranges[PS_SESSIONS_MAX];
    Ps__V1__LeaseRange *range_list[PS_SESSIONS_MAX];
    Ps__V1__EpochProgress epochs[1024];
    Ps__V1__EpochProgress *epoch_list[1024];
    Ps__V1__WorkerStats stats;
    Ps__V1__Optimizer optimizer;
    Ps__V1__TableDefinition definition;
    uint64_t shape[1];
    uint8_t id[16];
    char name[2];
} lists = {.shape = {1}, .name = "w"};

static void fill_members_and_epochs(void)
{
    ps__v1__worker_stats__init(&lists.stats);
    lists.stats.units = lists.stats.rows = lists.stats.bytes_pushed = 100000;
    for (size_t i = 0; i < PS_ARRAY_LEN(lists.members); i++) {
        Ps__V1__Member *member = &lists.members[i];
        ps__v1__member__init(member);
        member->name = lists.name;
        member->state = lists.name;
        member->session_number = i;
        member->kind = PS__V1__SESSION_KIND__WORKER;
        member->silent_ms = 200;
        member->worker = &lists.stats;
        lists.member_list[i] = member;
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(lists.epochs); i++) {
        Ps__V1__EpochProgress *epoch = &lists.epochs[i];
        ps__v1__epoch_progress__init(epoch);
        epoch->epoch = (uint32_t)i;
        epoch->units = epoch->units_done = epoch->loss_rows = 1000;
        epoch->loss_sum = 0.5;
        lists.epoch_list[i] = epoch;
    }
}

static void fill_other_lists(void)
{
    ps__v1__optimizer__init(&lists.optimizer);
    ps__v1__table_definition__init(&lists.definition);
    lists.optimizer.name = lists.name;
    lists.definition.name = lists.name;
    lists.definition.shape = lists.shape;
    lists.definition.n_shape = 1;
    lists.definition.optimizer = &lists.optimizer;
    for (size_t i = 0; i < PS_TABLES_MAX; i++) {
        ps__v1__table__init(&lists.tables[i]);
        lists.tables[i].definition = &lists.definition;
        lists.table_list[i] = &lists.tables[i];
    }
    for (size_t i = 0; i < PS_SESSIONS_MAX; i++) {
        ps__v1__open_session__init(&lists.sessions[i]);
        ps__v1__lease_range__init(&lists.ranges[i]);
        lists.sessions[i].session =
            (ProtobufCBinaryData){.data = lists.id, .len = sizeof(lists.id)};
        lists.ranges[i].first = i;
        lists.session_list[i] = &lists.sessions[i];
        lists.range_list[i] = &lists.ranges[i];
    }
}

START_TEST(our_own_lists_fit_their_budget)
{
    fill_members_and_epochs();
    fill_other_lists();
    Ps__V1__Catalogue catalogue = PS__V1__CATALOGUE__INIT;
    Ps__V1__DescribeReply reply = PS__V1__DESCRIBE_REPLY__INIT;
    Ps__V1__OpenSessions open = PS__V1__OPEN_SESSIONS__INIT;
    Ps__V1__FinishedLeases finished = PS__V1__FINISHED_LEASES__INIT;
    Ps__V1__AttendState state = PS__V1__ATTEND_STATE__INIT;
    catalogue.tables = lists.table_list;
    catalogue.n_tables = PS_TABLES_MAX;
    reply.catalogue = &catalogue;
    reply.members = lists.member_list;
    reply.n_members = PS_ARRAY_LEN(lists.members);
    reply.epochs = lists.epoch_list;
    reply.n_epochs = PS_ARRAY_LEN(lists.epochs);
    open.sessions = lists.session_list;
    open.n_sessions = PS_SESSIONS_MAX;
    finished.ranges = lists.range_list;
    finished.n_ranges = PS_SESSIONS_MAX;
    state.catalogue = &catalogue;
    state.sessions = &open;
    state.finished = &finished;
    const ProtobufCMessage *all[] = {&reply.base, &state.base, &catalogue.base, &open.base,
                                     &finished.base};
    for (size_t i = 0; i < PS_ARRAY_LEN(all); i++) {
        struct ps_slice slice;
        ps_mem_init(&mem);
        (void)pack_as_slice(all[i], &slice);
        ProtobufCMessage *read = ps_wire_unpack(all[i]->descriptor, &slice, 1, &mem);
        ck_assert_msg(read != NULL, "%s does not fit", all[i]->descriptor->name);
        ps_wire_unpacked_free(read);
    }
}
END_TEST

/* What a newer peer says is not kept, neither here nor in what is packed again. */
START_TEST(unknown_fields_are_dropped_at_every_depth)
{
    /* definition { name "w", optimizer { 15: "x" }, 15: "yy" }, 15: "z" */
    static const uint8_t message[] = {0x12, 12,   0x0a, 1,   'w', 0x3a, 3, 0x7a, 1,
                                      'x',  0x7a, 2,    'y', 'y', 0x7a, 1, 'z'};
    ps_mem_init(&mem);
    struct ps_slice slice = {.data = message, .n_bytes = sizeof(message)};
    ProtobufCMessage *read =
        ps_wire_unpack(&ps__v1__define_table_request__descriptor, &slice, 1, &mem);
    ck_assert_ptr_nonnull(read);
    const Ps__V1__TableDefinition *definition = ((Ps__V1__DefineTableRequest *)read)->definition;
    ck_assert_str_eq(definition->name, "w");
    ck_assert_ptr_nonnull(definition->optimizer);
    ck_assert_uint_eq(protobuf_c_message_get_packed_size(read), 2 + 3 + 2);
    ProtobufCMessage *copy = ps_wire_copy(&definition->base, &mem);
    ck_assert_ptr_nonnull(copy);
    ps_wire_unpacked_free(read);
    ck_assert_str_eq(((Ps__V1__TableDefinition *)copy)->name, "w");
    ps_wire_unpacked_free(copy);
    ck_assert_uint_eq(mem.used[PS_MEM_CALLS], 0);
}
END_TEST

Suite *suite_pack(void)
{
    Suite *suite = suite_create("pack");
    TCase *tcase = tcase_create("pack");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, what_was_packed_is_unpacked_from_any_slices);
    tcase_add_test(tcase, an_empty_message_is_one);
    tcase_add_test(tcase, damage_gives_null_and_no_leak);
    tcase_add_test(tcase, a_refused_allocation_gives_null_and_no_leak);
    tcase_add_test(tcase, a_message_longer_than_a_call_is_refused_unread);
    tcase_add_loop_test(tcase, a_message_of_nothings_ends_at_its_budget, 0,
                        (int)PS_ARRAY_LEN(bombs));
    tcase_add_test(tcase, our_own_lists_fit_their_budget);
    tcase_add_test(tcase, unknown_fields_are_dropped_at_every_depth);
    suite_add_tcase(suite, tcase);
    return suite;
}
