#ifndef PS_TESTS_UNIT_TRAIN_SETUP_RIG_H
#define PS_TESTS_UNIT_TRAIN_SETUP_RIG_H
/*
 * unit/train/setup_rig.h — setups of every kind of model, by their JSON.
 */
#include "train/setup.h"

#define SETUP_LIBSVM                                                                  \
    "{\"format\":\"libsvm\",\"task\":\"binary\",\"labels\":[\"-1\",\"1\"],"           \
    "\"labels_given\":false,\"n_features\":\"9\",\"n_rows\":\"4\",\"all_seen\":true," \
    "\"index_base\":1,\"header\":false,\"columns\":[]}"

#define SETUP_CSV                                                                                 \
    "{\"format\":\"csv\",\"task\":\"binary\",\"labels\":[\"no\",\"yes\"],\"labels_given\":false," \
    "\"n_features\":\"3\",\"n_rows\":\"4\",\"all_seen\":true,\"index_base\":0,\"header\":true,"   \
    "\"columns\":[{\"name\":\"y\",\"kind\":\"label\"},"                                           \
    "{\"name\":\"age\",\"kind\":\"numeric\",\"mean\":1.5,\"scale\":0.10000000000000001},"         \
    "{\"name\":\"town\",\"kind\":\"categorical\"}]}"

#define SETUP_VALUE                                                                    \
    "{\"format\":\"libsvm\",\"task\":\"number\",\"labels\":[],\"labels_given\":false," \
    "\"n_features\":\"9\",\"n_rows\":\"4\",\"all_seen\":true,\"index_base\":1,"        \
    "\"header\":false,\"columns\":[]}"

#define SETUP_CLASSES                                                                 \
    "{\"format\":\"libsvm\",\"task\":\"classes\",\"labels\":[\"2\",\"4\",\"7\"],"     \
    "\"labels_given\":false,\"n_features\":\"9\",\"n_rows\":\"4\",\"all_seen\":true," \
    "\"index_base\":0,\"header\":false,\"columns\":[]}"

#define SETUP_TEXT(model, rank, hidden, offset, data)                              \
    "{\"version\":1,\"model\":\"" model "\",\"rank\":" rank ",\"hidden\":[" hidden \
    "],\"pool\":false,\"regress\":false,\"offset\":" offset ",\"data\":" data "}"

/** All that follow, for loop tests. */
struct setup_case {
    const char *name;
    const char *text;
};

#define SETUP_CASES 6
extern const struct setup_case setup_cases[SETUP_CASES];

/** The setup of `text`, which must be good. */
struct ps_setup *setup_of(const char *text);

#endif
