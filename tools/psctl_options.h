#ifndef PS_TOOLS_PSCTL_OPTIONS_H
#define PS_TOOLS_PSCTL_OPTIONS_H
/*
 * psctl_options.h — what psctl can be told: commands and flags, as rows.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "conf/conf.h"

struct psctl_options {
    const char *coordinator;
    struct ps_id cluster_id; /* That it must be; none: any. */
    uint64_t timeout_ms;
    bool json;
    const char *reason; /* Of shutdown. */
};

extern const struct ps_program psctl_program;

#endif
