/*
 * test_obs.c — metrics count apart, add up under threads and print as Prometheus reads them; log
 * lines are whole, one write each, and cannot be broken by what they carry.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "lib/test_main.h"
#include "obs/log.h"
#include "obs/metric.h"

static struct ps_metrics metrics; /* Each Check test runs in a process of its own, or clears it. */

START_TEST(two_servers_in_one_process_count_apart)
{
    struct ps_metrics other = {0};
    memset(&metrics, 0, sizeof(metrics));
    ps_metric_add(&metrics, PS_METRIC_push_total, 3);
    ps_metric_add(&other, PS_METRIC_push_total, 5);
    ck_assert_uint_eq(ps_metric_get(&metrics, PS_METRIC_push_total), 3);
    ck_assert_uint_eq(ps_metric_get(&other, PS_METRIC_push_total), 5);
}
END_TEST

START_TEST(a_gauge_goes_up_and_down_and_can_be_set)
{
    memset(&metrics, 0, sizeof(metrics));
    ps_metric_add(&metrics, PS_METRIC_pulls_parked, 3);
    ps_metric_sub(&metrics, PS_METRIC_pulls_parked, 2);
    ck_assert_uint_eq(ps_metric_get(&metrics, PS_METRIC_pulls_parked), 1);
    ps_metric_set(&metrics, PS_METRIC_pulls_parked, 7);
    ck_assert_uint_eq(ps_metric_get(&metrics, PS_METRIC_pulls_parked), 7);
}
END_TEST

START_TEST(a_counter_cannot_fall)
{
    ps_metric_sub(&metrics, PS_METRIC_push_total, 1);
}
END_TEST

START_TEST(a_histogram_is_not_a_counter)
{
    ps_metric_add(&metrics, PS_METRIC_staleness_clocks, 1);
}
END_TEST

START_TEST(nothing_is_counted_without_metrics)
{
    ps_metric_add(NULL, PS_METRIC_push_total, 3);
    ps_metric_observe(NULL, PS_METRIC_staleness_clocks, 3);
    ck_assert_uint_eq(ps_metric_get(NULL, PS_METRIC_push_total), 0);
}
END_TEST

START_TEST(a_value_falls_into_the_first_bucket_whose_bound_it_does_not_pass)
{
    struct ps_histogram_view view;
    uint64_t sum = 0;
    memset(&metrics, 0, sizeof(metrics));
    for (uint64_t value = 0; value <= 100; value++) {
        ps_metric_observe(&metrics, PS_METRIC_staleness_clocks, value);
        sum += value;
    }
    ps_metric_histogram(&metrics, PS_METRIC_staleness_clocks, &view);
    ck_assert_uint_eq(view.n, 101);
    ck_assert_uint_eq(view.sum, sum);
    ck_assert_uint_eq(view.max, 100);
    uint64_t below = 0; /* The first value of bucket i. */
    for (size_t i = 0; i + 1 < view.n_buckets; i++) {
        ck_assert_uint_eq(view.buckets[i], view.bounds[i] + 1 - below);
        below = view.bounds[i] + 1;
    }
    ck_assert_uint_eq(view.buckets[view.n_buckets - 1], 101 - below);
}
END_TEST

enum {
    THREADS = 4,
    ROUNDS = 20000
};

static void *count(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        ps_metric_add(&metrics, PS_METRIC_push_rows_total, 2);
        ps_metric_observe(&metrics, PS_METRIC_staleness_clocks, i % 70);
    }
    return NULL;
}

START_TEST(no_count_is_lost_between_threads)
{
    pthread_t threads[THREADS];
    struct ps_histogram_view view;
    memset(&metrics, 0, sizeof(metrics));
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count, NULL), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(ps_metric_get(&metrics, PS_METRIC_push_rows_total), 2ull * THREADS * ROUNDS);
    ps_metric_histogram(&metrics, PS_METRIC_staleness_clocks, &view);
    ck_assert_uint_eq(view.n, 1ull * THREADS * ROUNDS);
    ck_assert_uint_eq(view.max, 69);
}
END_TEST

START_TEST(the_text_names_every_metric_and_sums_its_buckets)
{
    memset(&metrics, 0, sizeof(metrics));
    ps_metric_add(&metrics, PS_METRIC_bytes_pushed_total, 12345);
    ps_metric_observe(&metrics, PS_METRIC_apply_seconds, 2000000); /* 2 ms */
    size_t n_bytes = ps_metrics_text(&metrics, NULL, 0);
    char *text = malloc(n_bytes + 1);
    ck_assert_uint_eq(ps_metrics_text(&metrics, text, n_bytes + 1), n_bytes);
    ck_assert_uint_eq(strlen(text), n_bytes);
    for (unsigned i = 0; i < PS_METRIC_COUNT; i++) {
        char line[128];
        (void)snprintf(line, sizeof(line), "\n# TYPE %s ", ps_metric_name((enum ps_metric)i));
        ck_assert_msg(strstr(text, line) != NULL, "%s is missing", line);
    }
    ck_assert_ptr_nonnull(strstr(text, "\nbytes_pushed_total 12345\n"));
    ck_assert_ptr_nonnull(strstr(text, "\napply_seconds_bucket{le=\"0.001\"} 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "\napply_seconds_bucket{le=\"0.003\"} 1\n"));
    ck_assert_ptr_nonnull(strstr(text, "\napply_seconds_bucket{le=\"+Inf\"} 1\n"));
    ck_assert_ptr_nonnull(strstr(text, "\napply_seconds_sum 0.002\n"));
    free(text);
}
END_TEST

START_TEST(a_short_buffer_gets_the_beginning)
{
    char text[16];
    memset(text, 'x', sizeof(text));
    memset(&metrics, 0, sizeof(metrics));
    ck_assert_uint_gt(ps_metrics_text(&metrics, text, sizeof(text)), sizeof(text));
    ck_assert_uint_eq(strlen(text), sizeof(text) - 1);
}
END_TEST

/* Standard error goes into a pipe until log_end, which returns what was written. */
static int log_pipe[2];
static int log_saved;

static void log_begin(void)
{
    ck_assert_int_eq(pipe(log_pipe), 0);
    log_saved = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(log_pipe[1], STDERR_FILENO), 0);
    ck_assert_int_eq(close(log_pipe[1]), 0);
}

static void log_end(char *text, size_t n_bytes)
{
    ck_assert_int_ge(dup2(log_saved, STDERR_FILENO), 0);
    size_t used = 0;
    for (ssize_t n = 1; n > 0 && used < n_bytes - 1; used += (size_t)n) {
        n = read(log_pipe[0], text + used, n_bytes - 1 - used);
        ck_assert_int_ge(n, 0);
    }
    text[used] = '\0';
    ck_assert_int_eq(close(log_pipe[0]), 0);
    ck_assert_int_eq(close(log_saved), 0);
}

START_TEST(a_line_has_time_level_name_event_and_fields)
{
    char text[4096];
    log_begin();
    ps_log_name_set("server-0");
    ps_log(PS_LOG_INFO, "member.joined", "session=%u kind=%s", 3u, "worker");
    ps_log_plain(PS_LOG_WARN, "member.left");
    log_end(text, sizeof(text));
    ck_assert_int_eq(strncmp(text, "ts=20", 5), 0);
    ck_assert_ptr_nonnull(
        strstr(text, "Z level=info at=server-0 event=member.joined session=3 kind=worker\nts="));
    ck_assert_ptr_nonnull(strstr(text, "Z level=warn at=server-0 event=member.left\n"));
}
END_TEST

START_TEST(the_level_decides_what_is_written)
{
    char text[4096];
    log_begin();
    for (int level = PS_LOG_NONE; level <= PS_LOG_DEBUG; level++) {
        ps_log_level_set((enum ps_log_level)level);
        ck_assert_int_eq(ps_log_on(PS_LOG_WARN), level >= PS_LOG_WARN);
        ps_log(PS_LOG_WARN, "try.made", "at=%s", ps_log_level_words[level]);
    }
    log_end(text, sizeof(text));
    ck_assert_ptr_null(strstr(text, "at=none"));
    ck_assert_ptr_null(strstr(text, "at=error"));
    ck_assert_ptr_nonnull(strstr(text, "at=warn"));
    ck_assert_ptr_nonnull(strstr(text, "at=debug"));
}
END_TEST

START_TEST(what_a_line_carries_cannot_end_it)
{
    char text[4096];
    log_begin();
    ps_log(PS_LOG_INFO, "call.refused", "peer=\"%s\"", "a\nlevel=error event=forged\x1b[2J");
    log_end(text, sizeof(text));
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
    ck_assert_ptr_null(strchr(text, '\x1b'));
}
END_TEST

static void note(void *arg, const char *line)
{
    (void)snprintf(arg, PS_LOG_LINE_BYTES_MAX, "%s", line);
}

START_TEST(lines_go_to_a_function_that_asked_for_them)
{
    char line[PS_LOG_LINE_BYTES_MAX] = "";
    log_begin();
    ps_log_to(note, line);
    ps_log(PS_LOG_WARN, "server.back", "server=%d", 3);
    ps_log_to(NULL, NULL);
    char text[256];
    log_end(text, sizeof(text));
    ck_assert_str_eq(text, "");
    ck_assert_ptr_nonnull(strstr(line, " level=warn "));
    ck_assert_str_eq(strstr(line, "event="), "event=server.back server=3");
}
END_TEST

START_TEST(a_line_too_long_is_cut_and_says_so)
{
    char text[4096];
    char field[PS_LOG_LINE_BYTES_MAX * 2];
    memset(field, 'y', sizeof(field) - 1);
    field[sizeof(field) - 1] = '\0';
    log_begin();
    ps_log(PS_LOG_INFO, "call.refused", "peer=%s", field);
    log_end(text, sizeof(text));
    ck_assert_uint_eq(strlen(text), PS_LOG_LINE_BYTES_MAX);
    ck_assert_str_eq(text + strlen(text) - 5, "y...\n");
}
END_TEST

static Suite *metric_suite(void)
{
    Suite *suite = suite_create("metric");
    TCase *tcase = tcase_create("metrics");
    tcase_add_test(tcase, two_servers_in_one_process_count_apart);
    tcase_add_test(tcase, a_gauge_goes_up_and_down_and_can_be_set);
    tcase_add_test_raise_signal(tcase, a_counter_cannot_fall, SIGABRT);
    tcase_add_test_raise_signal(tcase, a_histogram_is_not_a_counter, SIGABRT);
    tcase_add_test(tcase, nothing_is_counted_without_metrics);
    tcase_add_test(tcase, a_value_falls_into_the_first_bucket_whose_bound_it_does_not_pass);
    tcase_add_test(tcase, no_count_is_lost_between_threads);
    tcase_add_test(tcase, the_text_names_every_metric_and_sums_its_buckets);
    tcase_add_test(tcase, a_short_buffer_gets_the_beginning);
    suite_add_tcase(suite, tcase);
    return suite;
}

static Suite *log_suite(void)
{
    Suite *suite = suite_create("log");
    TCase *tcase = tcase_create("lines");
    tcase_add_test(tcase, a_line_has_time_level_name_event_and_fields);
    tcase_add_test(tcase, the_level_decides_what_is_written);
    tcase_add_test(tcase, what_a_line_carries_cannot_end_it);
    tcase_add_test(tcase, lines_go_to_a_function_that_asked_for_them);
    tcase_add_test(tcase, a_line_too_long_is_cut_and_says_so);
    suite_add_tcase(suite, tcase);
    return suite;
}

PS_TEST_MAIN(metric_suite, log_suite)
