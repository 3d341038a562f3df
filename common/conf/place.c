/* place.c — see place.h. */
#include "conf/place.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define AT(field) .offset = offsetof(struct ps_conf_own, field)

static const struct ps_option own_rows[] = {
    {
        .name = "config",
        .unit = "FILE",
        .group = "Other",
        .help = "Read settings from this job file first; see ps-config(5).",
        .type = PS_OPTION_STRING,
        AT(config),
    },
    {
        .name = "print-config",
        .help = "Print every setting, its value and where that is from, and stop.",
        .type = PS_OPTION_BOOL,
        AT(print_config),
    },
    {
        .name = "help",
        .help = "Print this and stop.",
        .type = PS_OPTION_BOOL,
        AT(help),
    },
    {
        .name = "version",
        .help = "Print the version and stop.",
        .type = PS_OPTION_BOOL,
        AT(version),
    },
};

const struct ps_option_table ps_conf_own_table = {own_rows, PS_ARRAY_LEN(own_rows)};

size_t ps_conf_row_count(const struct ps_program *program)
{
    size_t n = PS_ARRAY_LEN(own_rows);
    for (size_t i = 0; i < program->n_uses; i++) {
        n += program->uses[i].table->n_rows;
    }
    return n;
}

struct ps_conf_place ps_conf_place_at(const struct ps_program *program, size_t index)
{
    size_t left = index;
    for (size_t i = 0; i < program->n_uses; i++) {
        const struct ps_option_table *table = program->uses[i].table;
        if (left < table->n_rows) {
            return (struct ps_conf_place){&table->rows[left], index, program->uses[i].offset,
                                          false};
        }
        left -= table->n_rows;
    }
    PS_ASSERT(left < PS_ARRAY_LEN(own_rows));
    return (struct ps_conf_place){&own_rows[left], index, 0, true};
}

struct ps_conf_place ps_conf_place_find(const struct ps_program *program, const char *name,
                                        size_t n_bytes)
{
    size_t n = ps_conf_row_count(program);
    for (size_t i = 0; i < n; i++) {
        struct ps_conf_place place = ps_conf_place_at(program, i);
        if (strlen(place.row->name) == n_bytes && memcmp(place.row->name, name, n_bytes) == 0) {
            return place;
        }
    }
    return (struct ps_conf_place){0};
}

const struct ps_option *ps_conf_row_find(const struct ps_program *program, const char *name,
                                         size_t n_bytes)
{
    struct ps_conf_place place = ps_conf_place_find(program, name, n_bytes);
    return place.own ? NULL : place.row;
}

bool ps_conf_has_env(struct ps_conf_place place)
{
    return !(place.own && place.row->type == PS_OPTION_BOOL);
}

void ps_conf_path_words(const char *path, char *text, size_t n_bytes)
{
    size_t n_path = strlen(path);
    bool cut = n_path >= n_bytes;
    const char *from = cut ? path + n_path - (n_bytes - sizeof("...")) : path;
    (void)snprintf(text, n_bytes, "%s%s", cut ? "..." : "", from);
    for (char *at = text; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~') {
            *at = '?';
        }
    }
}
