#ifndef PS_COMMON_CONF_PLACE_H
#define PS_COMMON_CONF_PLACE_H
/*
 * conf/place.h — rows by number and by name. The rows of a program are those of its tables in
 * their order, then those that every program has. For this folder only.
 */
#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"

/** A row and where it stands. */
struct ps_conf_place {
    const struct ps_option *row; /* NULL: there is none. */
    size_t index;                /* Over all rows of the program. */
    size_t base;                 /* Offset of the struct that the row's table fills. */
    bool own;                    /* One that every program has: fills struct ps_conf_own. */
};

size_t ps_conf_row_count(const struct ps_program *program);

struct ps_conf_place ps_conf_place_at(const struct ps_program *program, size_t index);

struct ps_conf_place ps_conf_place_find(const struct ps_program *program, const char *name,
                                        size_t n_bytes);

/** As above, without the rows that every program has: those have no place in a job file. */
const struct ps_option *ps_conf_row_find(const struct ps_program *program, const char *name,
                                         size_t n_bytes);

/** Whether the environment has a say: not in --help and its like, which are for argv only. */
bool ps_conf_has_env(struct ps_conf_place place);

/** The end of a long path, with dots before it; what is no printable ASCII becomes '?'. */
void ps_conf_path_words(const char *path, char *text, size_t n_bytes);

#define PS_CONF_PATH_WORDS_BYTES 64u

#endif
