/*
 * test_progress.c — the progress line as a table.
 */
#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "lib/test_main.h"
#include "train/progress.h"
#include "unit/train/suites.h"

#define UNKNOWN ((double)NAN)

/* clang-format off */
static const struct {
    struct ps_progress progress;
    const char *line;
} lines[] = {
    {{0, 5, 0, 300000, UNKNOWN, UNKNOWN, UNKNOWN},
     "epoch 1/5   0%"},
    {{1, 5, 86000, 200000, 52100.0, 0.48213, 1.24},
     "epoch 2/5  43%  52.1k examples/s  loss 0.4821  staleness 1.2  0:02 left"},
    {{4, 5, 200000, 200000, 52100.0, 0.5, 0.0},
     "epoch 5/5  100%  52.1k examples/s  loss 0.5000  staleness 0.0"},
    {{5, 5, 200000, 200000, 0.0, 0.5, UNKNOWN},
     "epoch 5/5  100%  loss 0.5000"},
    {{0, 1, 199999, 200000, 10.0, 2.0, UNKNOWN},
     "epoch 1/1  99%  10 examples/s  loss 2.0000  0:00 left"},
    {{0, 1, 0, 10000000, 1000.0, (double)INFINITY, UNKNOWN},
     "epoch 1/1   0%  1.0k examples/s  loss inf  2:46:40 left"},
    {{0, 1, 0, 7000000, 2.5e6, UNKNOWN, UNKNOWN},
     "epoch 1/1   0%  2.50M examples/s  0:03 left"},
    {{0, 1, 500, 0, 1000.0, UNKNOWN, UNKNOWN},
     "epoch 1/1  1.0k examples/s"},
    {{0, 1, 0, UINT64_MAX, 1e-9, UNKNOWN, UNKNOWN},
     "epoch 1/1   0%  0 examples/s  99:59:59 left"},
};
/* clang-format on */

START_TEST(the_line_shows_what_is_known)
{
    char line[PS_PROGRESS_LINE_BYTES];
    size_t n = ps_progress_line(&lines[_i].progress, line);
    ck_assert_str_eq(line, lines[_i].line);
    ck_assert_uint_eq(n, strlen(line));
}
END_TEST

START_TEST(the_longest_line_is_cut_and_not_overrun)
{
    struct ps_progress progress = {
        .epoch = UINT64_MAX,
        .n_epochs = UINT64_MAX,
        .rows_done = 1,
        .rows_total = UINT64_MAX,
        .examples_per_s = 1e300,
        .loss = 1e300,
        .staleness = 1e300,
    };
    char line[PS_PROGRESS_LINE_BYTES + 1];
    line[PS_PROGRESS_LINE_BYTES] = 'x';
    ck_assert_uint_eq(ps_progress_line(&progress, line), PS_PROGRESS_LINE_BYTES - 1);
    ck_assert_int_eq(line[PS_PROGRESS_LINE_BYTES - 1], '\0');
    ck_assert_int_eq(line[PS_PROGRESS_LINE_BYTES], 'x');
}
END_TEST

Suite *suite_progress(void)
{
    Suite *suite = suite_create("progress");
    TCase *tcase = tcase_create("core");
    tcase_add_loop_test(tcase, the_line_shows_what_is_known, 0, (int)PS_ARRAY_LEN(lines));
    tcase_add_test(tcase, the_longest_line_is_cut_and_not_overrun);
    suite_add_tcase(suite, tcase);
    return suite;
}
