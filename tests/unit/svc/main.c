/*
 * main.c — the suites of suites.h, twice: records are committed at once, as without a log; then
 * late, as with one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"

int main(void)
{
    static Suite *(*const suites[])(void) = {
        suite_table_def, suite_data_check, suite_data_push, suite_data_pull, suite_data_bounds,
        suite_aggregate, suite_attend,     suite_lasting,   suite_health,    suite_reflection,
        suite_rows,      suite_scan,       suite_late,      suite_restore,
    };
    int n = (int)(sizeof(suites) / sizeof(suites[0]));
    int at_once = test_run(suites, n);
    (void)printf("again, with records that are committed late\n");
    (void)fflush(stdout);
    rig.late_by_default = true;
    return at_once == EXIT_SUCCESS ? test_run(suites, n) : at_once;
}
