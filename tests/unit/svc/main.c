/*
 * main.c — the suites of suites.h, twice: records are committed at once, as without a log; then
 * late, as with one.
 *
 *   PS_TEST_BUG=half-applied   with this planted bug: they have to fail (builds with -Dplant=true)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test_main.h"
#include "rig.h"
#include "suites.h"

static const struct {
    const char *word;
    enum ps_slot_plant plant;
} plants[] = {
    {"repeat-before-durable", PS_SLOT_PLANT_REPEAT_BEFORE_DURABLE},
    {"gate-off-by-one", PS_SLOT_PLANT_GATE_OFF_BY_ONE},
    {"dedupe-off", PS_SLOT_PLANT_DEDUPE_OFF},
    {"sessions-not-in-cut", PS_SLOT_PLANT_SESSIONS_NOT_IN_CUT},
    {"sessions-not-replayed", PS_SLOT_PLANT_SESSIONS_NOT_REPLAYED},
    {"dedupe-without-stream", PS_SLOT_PLANT_DEDUPE_WITHOUT_STREAM},
    {"stream-forgotten", PS_SLOT_PLANT_STREAM_FORGOTTEN},
    {"half-applied", PS_SLOT_PLANT_HALF_APPLIED},
    {"fence-at-applied", PS_SLOT_PLANT_FENCE_AT_APPLIED},
};

static void plant(const char *word)
{
    for (size_t i = 0; word != NULL && i < sizeof(plants) / sizeof(plants[0]); i++) {
        if (strcmp(plants[i].word, word) == 0) {
            rig.plant = plants[i].plant;
        }
    }
}

int main(void)
{
    static Suite *(*const suites[])(void) = {
        suite_table_def, suite_data_check, suite_data_push, suite_data_pull, suite_data_bounds,
        suite_aggregate, suite_attend,     suite_lasting,   suite_health,    suite_reflection,
        suite_rows,      suite_scan,       suite_late,      suite_restore,
    };
    int n = (int)(sizeof(suites) / sizeof(suites[0]));
    plant(getenv("PS_TEST_BUG"));
    int at_once = test_run(suites, n);
    (void)printf("again, with records that are committed late\n");
    (void)fflush(stdout);
    rig.late_by_default = true;
    return at_once == EXIT_SUCCESS ? test_run(suites, n) : at_once;
}
