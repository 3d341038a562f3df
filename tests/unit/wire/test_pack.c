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

static Ps__V1__DescribeReply *unpack(struct ps_cursor c)
{
    return (Ps__V1__DescribeReply *)ps_wire_unpack(&ps__v1__describe_reply__descriptor, c.slices,
                                                   c.n_slices, &mem);
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
    suite_add_tcase(suite, tcase);
    return suite;
}
