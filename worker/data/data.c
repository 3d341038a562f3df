/* data.c — see data.h. */
#include "data/data.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <sys/stat.h>

#include "base/assert.h"
#include "data/dataset.h"
#include "data/reader.h"

/* Sets that can be named because a Debian package brings them. */
static const struct {
    const char *name; /* Also the folder below the root. */
    const char *package;
} named_sets[] = {
    {"fashion-mnist", "dataset-fashion-mnist"},
};

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Turn what the user typed into a folder that exists. */
static enum ps_status find_folder(const char *where, const char *root, char folder[PATH_MAX],
                                  struct ps_error *err)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(named_sets); i++) {
        if (strcmp(where, named_sets[i].name) != 0) {
            continue;
        }
        int n = snprintf(folder, PATH_MAX, "%s/%s", root, where);
        if (n < 0 || n >= PATH_MAX || !is_folder(folder)) {
            return ps_fail(err, PS_ERR_NOT_FOUND,
                           "data set '%s' is not installed: apt-get install %s", where,
                           named_sets[i].package);
        }
        return PS_OK;
    }
    int n = snprintf(folder, PATH_MAX, "%s", where);
    if (n < 0 || n >= PATH_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "a path of %zu bytes is too long", strlen(where));
    }
    struct stat info;
    if (stat(where, &info) != 0) {
        return ps_fail(err, PS_ERR_NOT_FOUND,
                       "'%s' is neither a folder nor the name of a data set (known: %s)", where,
                       named_sets[0].name);
    }
    if (!S_ISDIR(info.st_mode)) {
        return ps_fail(err, PS_ERR_INVALID, "'%s' is a file: give the folder that holds it", where);
    }
    return PS_OK;
}

static enum ps_status pick_reader(const char *format, const char *folder,
                                  const struct ps_reader **ret, struct ps_error *err)
{
    if (format != NULL && strcmp(format, "auto") != 0) {
        *ret = ps_reader_find(format);
        return *ret != NULL ? PS_OK
                            : ps_fail(err, PS_ERR_INVALID,
                                      "unknown data format '%s', expected auto or idx", format);
    }
    size_t n = 0;
    const struct ps_reader *const *readers = ps_reader_all(&n);
    for (size_t i = 0; i < n; i++) {
        if (readers[i]->present(folder, PS_DATA_TRAIN)) {
            *ret = readers[i];
            return PS_OK;
        }
    }
    return ps_fail(err, PS_ERR_NOT_FOUND, "'%s' holds no training data, expected %s", folder,
                   readers[0]->help);
}

static enum ps_status open_test(const struct ps_reader *reader, const char *folder,
                                const struct ps_data_options *options,
                                const struct ps_dataset *train, struct ps_dataset **ret,
                                struct ps_error *err)
{
    if (options->test == NULL && !reader->present(folder, PS_DATA_TEST)) {
        *ret = NULL;
        return PS_OK;
    }
    struct ps_read_request request = {
        .mem = options->mem,
        .folder = folder,
        .part = PS_DATA_TEST,
        .n_classes = train->n_classes,
    };
    struct ps_dataset *test = NULL;
    enum ps_status status = reader->read(&request, &test, err);
    if (status != PS_OK) {
        return status;
    }
    if (test->n_features != train->n_features) {
        status = ps_fail(err, PS_ERR_INVALID,
                         "'%s': expected test rows of %" PRIu32
                         " numbers like the training rows, found %" PRIu32,
                         folder, train->n_features, test->n_features);
        ps_dataset_destroy(test);
        return status;
    }
    *ret = test;
    return PS_OK;
}

enum ps_status ps_data_open(const char *where, const struct ps_data_options *options,
                            struct ps_dataset **ret_train, struct ps_dataset **ret_test,
                            struct ps_error *err)
{
    static const struct ps_data_options none = {0};
    options = options != NULL ? options : &none;
    const char *root = options->root != NULL ? options->root : PS_DATA_ROOT;
    char folder[PATH_MAX];
    char test_folder[PATH_MAX];
    const struct ps_reader *reader = NULL;
    struct ps_dataset *train = NULL;
    struct ps_dataset *test = NULL;

    enum ps_data_blame blame = PS_DATA_BLAME_TRAIN;
    enum ps_status status = find_folder(where, root, folder, err);
    if (status == PS_OK) {
        blame = PS_DATA_BLAME_TEST;
        status = find_folder(options->test != NULL ? options->test : where, root, test_folder, err);
    }
    if (status == PS_OK) {
        blame = PS_DATA_BLAME_FORMAT;
        status = pick_reader(options->format, folder, &reader, err);
    }
    if (status == PS_OK) {
        blame = PS_DATA_BLAME_TRAIN;
        PS_ASSERT(reader != NULL);
        struct ps_read_request request = {
            .mem = options->mem,
            .folder = folder,
            .part = PS_DATA_TRAIN,
            .n_classes = options->n_classes,
        };
        status = reader->read(&request, &train, err);
    }
    if (status == PS_OK && ret_test != NULL) {
        blame = PS_DATA_BLAME_TEST;
        status = open_test(reader, test_folder, options, train, &test, err);
    }
    if (status != PS_OK && options->ret_blame != NULL) {
        *options->ret_blame = blame;
    }
    if (status != PS_OK) {
        ps_dataset_destroy(train);
        return status;
    }
    *ret_train = train;
    if (ret_test != NULL) {
        *ret_test = test;
    }
    return PS_OK;
}

bool ps_data_is_images(const char *where)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(named_sets); i++) {
        if (strcmp(where, named_sets[i].name) == 0) {
            return true;
        }
    }
    size_t n = 0;
    const struct ps_reader *const *readers = ps_reader_all(&n);
    for (size_t i = 0; i < n && is_folder(where); i++) {
        if (readers[i]->present(where, PS_DATA_TRAIN) || readers[i]->present(where, PS_DATA_TEST)) {
            return true;
        }
    }
    return false;
}
