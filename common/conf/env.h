#ifndef PS_COMMON_CONF_ENV_H
#define PS_COMMON_CONF_ENV_H
/*
 * conf/env.h — the environment: one variable per row, behind the program's prefix. For this folder.
 */
#include <stddef.h>

#include "base/attr.h"
#include "base/error.h"
#include "conf/conf.h"

#define PS_CONF_ENV_NAME_BYTES 80u

/** PS_SERVER and data-dir make PS_SERVER_DATA_DIR. */
void ps_conf_env_name(const struct ps_program *program, const char *name, char *text,
                      size_t n_bytes);

/**
 * The variable of the setting `name`, or NULL: it is not set, or empty, which is how container
 * files write "nothing". `label` has PS_CONF_LABEL_BYTES and gets its name for messages.
 */
const char *ps_conf_env_text(const struct ps_program *program, const char *name, char *label);

/**
 * Refuse variables with the program's prefix that are no setting: a mistyped one would be lost
 * without a word. Those that Kubernetes makes for a Service of such a name are none of ours.
 */
PS_MUST_CHECK enum ps_status ps_conf_env_check(const struct ps_program *program,
                                               struct ps_error *err);

#endif
