#ifndef PS_COMMON_CONF_FILE_H
#define PS_COMMON_CONF_FILE_H
/*
 * conf/file.h — a job file: settings of a whole job in YAML, read and checked.
 *
 *     staleness: 4              # for every program that has the setting
 *     ps-worker:                # for this one; wins over the line above
 *       hidden: [128, 64]
 *
 * A file is good for all programs of the job or for none: names and values of every section are
 * checked against the rows of its program, whoever reads it.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/error.h"
#include "conf/conf.h"

struct ps_conf_entry {
    struct ps_conf_entry *next;
    const struct ps_program *section; /* NULL: every program that has the setting. */
    const char *name;                 /* Of the row. */
    uint32_t line;                    /* Of the name, from 1. */
    char text[];                      /* As a flag's value would be written. */
};

/**
 * Read the job file `path`, which `label` asked for: "--config". `*file` is to be given to
 * ps_conf_file_deinit, success or not.
 * @return PS_ERR_INVALID, PS_ERR_IO, ... with one line; what is in the file is named "path:7:3:"
 */
PS_MUST_CHECK enum ps_status ps_conf_file_read(struct ps_conf_file *file,
                                               const struct ps_program *program, const char *path,
                                               const char *label, struct ps_error *err);

/** The same from memory; `path` is for messages. */
PS_MUST_CHECK enum ps_status ps_conf_file_parse(struct ps_conf_file *file,
                                                const struct ps_program *program, const char *path,
                                                const uint8_t *bytes, size_t n_bytes,
                                                struct ps_error *err);

/** A zeroed file does nothing. */
void ps_conf_file_deinit(struct ps_conf_file *file);

#endif
