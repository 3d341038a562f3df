/*
 * test_lasting.c — what attending asks of log and snapshots, and what waits for the answers.
 */
#include "attend_rig.h"
#include "lib/test_main.h"
#include "suites.h"

static const struct ps_error fine = {.status = PS_OK};

START_TEST(a_table_is_logged_before_the_lanes_hear_of_it)
{
    lasts = true;
    when = PS_LASTING_LATER;
    open_all();
    say_all(1);
    say_all(2);
    pass_ms(PS_HEARTBEAT_MS);
    ck_assert_uint_eq(n_tables_logged, 1);
    ck_assert_uint_eq(seen.catalogue, 0); /* Nor anything else of that state, nor of the next. */
    ck_assert_uint_eq(seen.placement, 0);
    when = PS_LASTING_DONE;
    ps_attend_logged(attend, &fine);
    pass_ms(PS_HEARTBEAT_MS);
    ck_assert_uint_eq(seen.catalogue, 1);
    ck_assert_uint_eq(seen.placement, 2);
    close_all();
}
END_TEST

START_TEST(a_snapshot_is_loaded_before_anything_of_its_state_is_applied)
{
    static char name[] = "000001-0000000005";
    Ps__V1__RestoreOrder order = PS__V1__RESTORE_ORDER__INIT;
    order.generation = 2;
    order.cut_generation = 1;
    order.cut = 5;
    order.name = name;
    lasts = true;
    when = PS_LASTING_DONE;
    open_all();
    restore_order = &order;
    say_all(1);
    say_all(2); /* The order comes again until it is heard to have been followed. */
    pass_ms(PS_HEARTBEAT_MS);
    ck_assert_uint_eq(restored_slots, UINT64_MAX);
    ck_assert_uint_eq(seen.placement, 0);
    ck_assert_uint_eq(seen.generation_loaded, 0);
    restored_slots = 0;
    ps_attend_restored(attend, &fine);
    pass_ms(PS_HEARTBEAT_MS);
    ck_assert_uint_eq(restored_slots, 0); /* Once. */
    ck_assert_uint_eq(seen.placement, 2);
    ck_assert_uint_eq(seen.generation_loaded, 2);
    close_all();
}
END_TEST

START_TEST(a_cut_is_ordered_once_and_what_became_of_it_is_said)
{
    Ps__V1__CutOrder order = PS__V1__CUT_ORDER__INIT;
    Ps__V1__AttendState state = plain(1);
    lasts = true;
    when = PS_LASTING_DONE;
    open_all();
    say_all(1);
    order.cut = 4;
    state.cut = &order;
    state.cut_kept = 3;
    state.oldest_generation = 2;
    state.oldest_cut = 1;
    say(&state);
    say(&state);
    ck_assert_uint_eq(cut_ordered, 4);
    ck_assert_uint_eq(cut_kept, 3);
    ck_assert_uint_eq(oldest[0], 2);
    ck_assert_uint_eq(oldest[1], 1);
    ps_attend_cut_taken(attend, 4);
    struct ps_attend_written written = {.cut = 4, .n_bytes = 77};
    ps_attend_cut_written(attend, &written);
    pass_ms(PS_HEARTBEAT_MS);
    ck_assert_uint_eq(seen.taken, 4);
    ck_assert_uint_eq(seen.written, 4);
    state.cut = NULL;
    state.cut_given_up = 4;
    say(&state);
    say(&state);
    ck_assert_uint_eq(cut_given_up, 4);
    close_all();
}
END_TEST

Suite *suite_lasting(void)
{
    Suite *suite = suite_create("lasting");
    TCase *tcase = tcase_create("lasting");
    tcase_add_test(tcase, a_table_is_logged_before_the_lanes_hear_of_it);
    tcase_add_test(tcase, a_snapshot_is_loaded_before_anything_of_its_state_is_applied);
    tcase_add_test(tcase, a_cut_is_ordered_once_and_what_became_of_it_is_said);
    suite_add_tcase(suite, tcase);
    return suite;
}
