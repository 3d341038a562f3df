#ifndef PS_TESTS_LIB_TEST_DATA_H
#define PS_TESTS_LIB_TEST_DATA_H
/*
 * lib/test_data.h — where data are that are not part of the project.
 *
 * Sets of rows lie below PS_TEST_DATA, a folder for each; the case bank, small files that have been
 * thought up, in PS_TEST_CASES. Without these variables they are looked for in the folders
 * ../shared/data and ../shared/cases/inputs beside the project's; set but empty: nowhere.
 */
#include <stdbool.h>

#define TEST_PATH_BYTES 4096

/**
 * The path of a file below PS_TEST_DATA; false when it is not there, after printing "skipped: why".
 * Where the variable is set the file must be there: the path is returned, and to read it fails.
 */
bool test_data_path(const char *name, char path[TEST_PATH_BYTES]);

/** The same below PS_TEST_CASES. */
bool test_case_path(const char *name, char path[TEST_PATH_BYTES]);

#endif
