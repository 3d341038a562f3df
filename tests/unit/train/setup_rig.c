/* setup_rig.c — see setup_rig.h. */
#include "unit/train/setup_rig.h"

#include <string.h>

#include <check.h>

const struct setup_case setup_cases[SETUP_CASES] = {
    {"logreg", SETUP_TEXT("logreg", "0", "", "0", SETUP_LIBSVM)},
    {"fm", SETUP_TEXT("fm", "3", "", "0", SETUP_CSV)},
    {"wide-deep", SETUP_TEXT("wide-deep", "2", "4,3", "0", SETUP_CSV)},
    {"softmax", SETUP_TEXT("softmax", "0", "", "0", SETUP_CLASSES)},
    {"linear", SETUP_TEXT("linear", "0", "", "3.5299999999999998", SETUP_VALUE)},
    {"mf", SETUP_TEXT("mf", "4", "", "-0.25", SETUP_VALUE)},
};

struct ps_setup *setup_of(const char *text)
{
    struct ps_setup *setup = NULL;
    struct ps_error err = {0};
    ck_assert_msg(ps_setup_read(NULL, text, strlen(text), &setup, &err) == PS_OK, "%s", err.text);
    return setup;
}
