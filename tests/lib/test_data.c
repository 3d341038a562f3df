/* test_data.c — see test_data.h. */
#include "lib/test_data.h"

#include <stdio.h>
#include <stdlib.h>

#include <unistd.h>

static bool find(const char *variable, const char *beside, const char *name,
                 char path[TEST_PATH_BYTES])
{
    const char *folder = getenv(variable);
    if (folder != NULL && folder[0] == '\0') {
        (void)printf("skipped: %s is empty\n", variable);
        return false;
    }
    int n = snprintf(path, TEST_PATH_BYTES, "%s/%s", folder != NULL ? folder : beside, name);
    if (n < 0 || n >= TEST_PATH_BYTES) {
        (void)printf("skipped: the path of %s in %s is too long\n", name, variable);
        return false;
    }
    if (folder == NULL && access(path, R_OK) != 0) {
        (void)printf("skipped: there is no %s (and %s is not set)\n", path, variable);
        return false;
    }
    return true;
}

bool test_data_path(const char *name, char path[TEST_PATH_BYTES])
{
    return find("PS_TEST_DATA", TEST_BESIDE "/data", name, path);
}

bool test_case_path(const char *name, char path[TEST_PATH_BYTES])
{
    return find("PS_TEST_CASES", TEST_BESIDE "/cases/inputs", name, path);
}
