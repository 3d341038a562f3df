#ifndef PS_COMMON_CONF_VALUE_H
#define PS_COMMON_CONF_VALUE_H
/*
 * conf/value.h — one setting's text, checked against its row and stored in its struct.
 */
#include "base/attr.h"
#include "base/error.h"
#include "conf/conf.h"

/** Longest name of a setting in a message: "--lr", "environment variable PS_WORKER_LR". */
#define PS_CONF_LABEL_BYTES 112

/**
 * Read `text` as the row asks and store it at `base` + the row's offset. `label` says where the
 * text came from and starts the message: "--lr", "environment variable PS_WORKER_LR". Nothing is
 * stored on failure.
 * @return PS_ERR_INVALID with a line that names label, text, and what would be accepted
 */
PS_MUST_CHECK enum ps_status ps_conf_store(const struct ps_option *row, void *base,
                                           const char *label, const char *text,
                                           struct ps_error *err);

/** As above, and nothing is stored. */
PS_MUST_CHECK enum ps_status ps_conf_check(const struct ps_option *row, const char *label,
                                           const char *text, struct ps_error *err);

/** The least and the most that the row takes, as text: "1 to 64", "0 and more"; "" without one. */
void ps_conf_range(const struct ps_option *row, char *text, size_t n_bytes);

/** One word for the kind of value: "N", "X", "BYTES", "TIME", "a|b|c", "N,N,..." or the unit. */
void ps_conf_kind(const struct ps_option *row, char *text, size_t n_bytes);

#endif
