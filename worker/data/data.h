#ifndef PS_WORKER_DATA_DATA_H
#define PS_WORKER_DATA_DATA_H
/*
 * data/data.h — from what the user typed after --data to a training and a test set.
 *
 * `where` is the name of a set that the distribution packages ("fashion-mnist") or a folder. A
 * name wins over a folder of the same name in the current directory; "./fashion-mnist" is always a
 * folder. Errors are one line that names the file and what was expected there; after an error
 * nothing is left behind. Blocks on the file system; keeps no state.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"

struct ps_dataset;
struct ps_mem;

#define PS_DATA_ROOT "/usr/share/datasets" /* Where Debian's dataset packages put their files. */

/** What of the request was wrong. */
enum ps_data_blame {
    PS_DATA_BLAME_TRAIN,
    PS_DATA_BLAME_TEST,
    PS_DATA_BLAME_FORMAT
};

struct ps_data_options {
    struct ps_mem *mem; /* Budget; NULL: no bound. */
    const char *format; /* Name of a reader, or NULL or "auto": the first that finds its files. */
    const char *test;   /* Folder of the test files (--test), or NULL: the same as `where`. */
    const char *root;   /* Folder of named sets, or NULL: PS_DATA_ROOT. */
    uint32_t n_classes; /* 0: as many as the labels of the training set ask for. */
    enum ps_data_blame *ret_blame; /* Set with an error, for the message; NULL: not wanted. */
};

/**
 * Read a training set and, if there is one, a test set.
 *
 * `options` may be NULL. `*ret_test` is NULL when there are no test files, unless options->test
 * asked for them: then that is an error. `ret_test` may be NULL when it is not wanted. Both sets
 * are the caller's, to be given to ps_dataset_destroy; they have equal n_features and n_classes.
 *
 * @return PS_ERR_NOT_FOUND  no such name or folder, or the package is not installed (the message
 *                           says what to install)
 *         PS_ERR_INVALID    a file is not what it should be
 *         PS_ERR_IO         a file cannot be read
 *         PS_ERR_NOMEM      the set does not fit the budget
 */
PS_MUST_CHECK enum ps_status ps_data_open(const char *where, const struct ps_data_options *options,
                                          struct ps_dataset **ret_train,
                                          struct ps_dataset **ret_test, struct ps_error *err);

/** Does `where` mean images: is it the name of a set, or a folder that holds files of a reader? */
bool ps_data_is_images(const char *where);

#endif
