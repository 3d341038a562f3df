/*
 * test_layout.c — layouts as properties over widths from one element to fifty million: every
 * element in exactly one block, every block in one slot, every part in one fragment.
 */
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/attr.h"
#include "base/limits.h"
#include "cluster/layout.h"
#include "cluster/placement.h"
#include "lib/test_main.h"
#include "suites.h"

static const uint64_t widths[] = {1,        2,        127,      128,     4095,    4096,
                                  4097,     262144,   262145,   266240,  1000003, 16777215,
                                  16777216, 16777217, 50000000, 50000001};

static struct ps_layout layout_of(uint64_t width, uint32_t first_slot)
{
    struct ps_layout layout = {0};
    ck_assert_int_eq(ps_layout_table(&width, 1, first_slot, &layout, NULL), PS_OK);
    return layout;
}

START_TEST(every_element_is_in_exactly_one_block)
{
    struct ps_layout layout = layout_of(widths[_i], 5);
    uint64_t next = 0;
    for (uint32_t block = 0; block < layout.n_blocks; block++) {
        ck_assert_uint_eq(ps_layout_first_element(&layout, block), next);
        uint32_t n = ps_layout_floats(&layout, block);
        ck_assert_uint_ge(n, 1);
        ck_assert_uint_le(n, layout.block_floats);
        ck_assert(n == layout.block_floats || block == layout.n_blocks - 1);
        next += n;
    }
    ck_assert_uint_eq(next, widths[_i]);
}
END_TEST

START_TEST(every_block_is_in_one_slot_and_that_slot_lists_it)
{
    for (uint32_t first_slot = 0; first_slot < PS_SLOTS; first_slot += 21) {
        struct ps_layout layout = layout_of(widths[_i], first_slot);
        static uint8_t listed[4096];
        ck_assert_uint_le(layout.n_blocks, sizeof(listed));
        memset(listed, 0, sizeof(listed));
        uint32_t n_listed = 0;
        for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
            uint32_t n = ps_layout_blocks_in_slot(&layout, slot);
            for (uint32_t nth = 0; nth < n; nth++) {
                uint32_t block = ps_layout_block_in_slot(&layout, slot, nth);
                ck_assert_uint_lt(block, layout.n_blocks);
                ck_assert_uint_eq(ps_layout_slot(&layout, block), slot);
                ck_assert_uint_eq(listed[block]++, 0);
            }
            n_listed += n;
        }
        ck_assert_uint_eq(n_listed, layout.n_blocks);
        ck_assert_uint_eq(ps_layout_slot(&layout, 0), first_slot);
        ck_assert_uint_eq(ps_layout_next_slot(&layout),
                          (ps_layout_slot(&layout, layout.n_blocks - 1) + 1) % PS_SLOTS);
    }
}
END_TEST

START_TEST(blocks_are_an_even_share_within_their_bounds)
{
    static const struct {
        uint64_t n_elements;
        uint32_t block_floats;
    } rows[] = {
        {1, 4096},
        {64 * 4096, 4096},
        {64 * 4096 + 63, 4096}, /* The share is cut down to a whole float first. */
        {64 * 4097, 5 * 1024},
        {64 * 5120, 5 * 1024},
        {64 * 5121, 6 * 1024},
        {UINT64_C(64) * 262143, 262144},
        {UINT64_C(64) * 262144, 262144},
        {UINT64_C(1) << 38, 262144},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        ck_assert_msg(ps_layout_block_floats(rows[i].n_elements) == rows[i].block_floats,
                      "%" PRIu64 " elements", rows[i].n_elements);
    }
}
END_TEST

START_TEST(shapes_that_cannot_be_are_refused)
{
    static const struct {
        uint32_t n_dims;
        uint64_t dims[PS_DIMS_MAX + 1];
        enum ps_status status;
        const char *words;
    } rows[] = {
        {0, {1}, PS_ERR_INVALID, "0 dimensions"},
        {9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, PS_ERR_INVALID, "9 dimensions"},
        {2, {3, 0}, PS_ERR_INVALID, "dimension 1 of the shape is 0"},
        {2, {UINT64_C(1) << 32, UINT64_C(1) << 32}, PS_ERR_INVALID, "more than"}, /* Wraps to 0. */
        {3, {UINT64_MAX, UINT64_MAX, 3}, PS_ERR_INVALID, "more than"},
        {1, {(UINT64_C(1) << 38) + 1}, PS_ERR_INVALID, "more than"},
        {2, {UINT64_C(1) << 19, UINT64_C(1) << 19}, PS_OK, ""},
        {8, {2, 2, 2, 2, 2, 2, 2, 2}, PS_OK, ""},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        struct ps_error err = {0};
        struct ps_layout layout = {.n_blocks = 77};
        enum ps_status status = ps_layout_table(rows[i].dims, rows[i].n_dims, 0, &layout, &err);
        ck_assert_msg(status == rows[i].status, "row %zu: status %d", i, (int)status);
        ck_assert_msg(strstr(err.text, rows[i].words) != NULL, "row %zu: '%s'", i, err.text);
        ck_assert(status == PS_OK || layout.n_blocks == 77); /* Written on success only. */
    }
}
END_TEST

/* A catalogue of every width, one without blocks in its middle, laid end to end. */
static uint32_t make_catalogue(struct ps_layout *tables)
{
    uint32_t slot = 0;
    uint32_t n = 0;
    for (size_t i = 0; i < PS_ARRAY_LEN(widths); i++) {
        tables[n] = layout_of(widths[i], slot);
        slot = ps_layout_next_slot(&tables[n++]);
        if (i == 3) {
            tables[n] = (struct ps_layout){.first_slot = slot};
            ck_assert_uint_eq(ps_layout_next_slot(&tables[n++]), slot);
        }
    }
    return n;
}

START_TEST(fragments_are_closed_exactly_when_they_carry_a_call)
{
    struct ps_layout tables[PS_ARRAY_LEN(widths) + 1];
    struct ps_layout_view view = {.tables = tables, .n_tables = make_catalogue(tables)};
    uint64_t n_floats = 0;
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        struct ps_layout_walk walk = ps_layout_walk_slot(view, slot);
        struct ps_layout_part part;
        struct ps_layout_part before = {0};
        uint64_t n_bytes = 0;
        bool first = true;
        while (ps_layout_walk_next(&walk, &part)) {
            ck_assert_uint_eq(ps_layout_slot(&tables[part.table], part.block), slot);
            ck_assert(first || part.table > before.table ||
                      (part.table == before.table && part.block > before.block));
            bool closed = n_bytes >= PS_CALL_PAYLOAD_BYTES;
            ck_assert_uint_eq(part.fragment, before.fragment + (closed ? 1u : 0u));
            n_bytes = (closed ? 0 : n_bytes) + part.n_floats * sizeof(float);
            n_floats += part.n_floats;
            before = part;
            first = false;
        }
        ck_assert_uint_eq(ps_layout_slot_fragments(view, slot), first ? 0 : before.fragment + 1);
    }
    uint64_t want = 0;
    for (size_t i = 0; i < PS_ARRAY_LEN(widths); i++) {
        want += widths[i];
    }
    ck_assert_uint_eq(n_floats, want);
}
END_TEST

START_TEST(the_parts_of_all_fragments_are_the_walk_over_the_slot)
{
    struct ps_layout tables[PS_ARRAY_LEN(widths) + 1];
    struct ps_layout_view view = {.tables = tables, .n_tables = make_catalogue(tables)};
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        struct ps_layout_walk walk = ps_layout_walk_slot(view, slot);
        struct ps_layout_part want;
        struct ps_layout_part parts[PS_CALL_PARTS_MAX];
        uint32_t n_fragments = ps_layout_slot_fragments(view, slot);
        for (uint32_t fragment = 0; fragment < n_fragments; fragment++) {
            uint32_t n = ps_layout_fragment_parts(view, slot, fragment, parts, PS_CALL_PARTS_MAX);
            ck_assert_uint_ge(n, 1);
            for (uint32_t i = 0; i < n; i++) {
                ck_assert(ps_layout_walk_next(&walk, &want));
                ck_assert_mem_eq(&parts[i], &want, sizeof(want));
            }
        }
        ck_assert(!ps_layout_walk_next(&walk, &want));
        ck_assert_uint_eq(
            ps_layout_fragment_parts(view, slot, n_fragments, parts, PS_CALL_PARTS_MAX), 0);
    }
}
END_TEST

START_TEST(as_many_small_tables_as_there_may_be_fit_the_parts_of_their_calls)
{
    static struct ps_layout tables[PS_TABLES_MAX];
    struct ps_layout_view view = {.tables = tables, .n_tables = PS_TABLES_MAX};
    struct ps_layout_part parts[PS_CALL_PARTS_MAX];
    for (uint32_t t = 0; t < PS_TABLES_MAX; t++) {
        tables[t] = layout_of(1, 9); /* The worst: all in one slot, nothing ever closed. */
    }
    ck_assert_uint_eq(ps_layout_fragment_parts(view, 9, 0, parts, PS_CALL_PARTS_MAX),
                      PS_TABLES_MAX);
    ck_assert_uint_eq(ps_layout_slot_fragments(view, 9), 1);
    ck_assert_uint_eq(ps_layout_slot_fragments(view, 10), 0);
}
END_TEST

START_TEST(placement_is_balanced_for_every_number_of_servers)
{
    for (uint32_t n_servers = 1; n_servers <= PS_SERVERS_MAX; n_servers++) {
        uint32_t n_slots[PS_SERVERS_MAX] = {0};
        for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
            uint32_t server = ps_placement_server(slot, n_servers);
            ck_assert_uint_lt(server, n_servers);
            n_slots[server]++;
        }
        for (uint32_t server = 0; server < n_servers; server++) {
            ck_assert_uint_ge(n_slots[server], PS_SLOTS / n_servers);
            ck_assert_uint_le(n_slots[server], (PS_SLOTS + n_servers - 1) / n_servers);
        }
    }
}
END_TEST

START_TEST(a_block_that_does_not_exist_aborts)
{
    struct ps_layout layout = layout_of(1, 0);
    (void)ps_layout_floats(&layout, 1);
}
END_TEST

Suite *suite_layout(void)
{
    Suite *suite = suite_create("layout");
    TCase *tcase = tcase_create("core");
    tcase_add_loop_test(tcase, every_element_is_in_exactly_one_block, 0, (int)PS_ARRAY_LEN(widths));
    tcase_add_loop_test(tcase, every_block_is_in_one_slot_and_that_slot_lists_it, 0,
                        (int)PS_ARRAY_LEN(widths));
    tcase_add_test(tcase, blocks_are_an_even_share_within_their_bounds);
    tcase_add_test(tcase, shapes_that_cannot_be_are_refused);
    tcase_add_test(tcase, fragments_are_closed_exactly_when_they_carry_a_call);
    tcase_add_test(tcase, the_parts_of_all_fragments_are_the_walk_over_the_slot);
    tcase_add_test(tcase, as_many_small_tables_as_there_may_be_fit_the_parts_of_their_calls);
    tcase_add_test(tcase, placement_is_balanced_for_every_number_of_servers);
    tcase_add_test_raise_signal(tcase, a_block_that_does_not_exist_aborts, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}
