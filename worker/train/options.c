/* options.c — see options.h. */
#include "train/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "train/optimizer_list.h"

#define STALENESS_MAX 1000000u /* Beyond it a bound is none; asp says so openly. */

const struct ps_train_optimizer ps_train_optimizers[] = {
#define X(word, lr, decay, at_home) \
    {.name = (word), .rate = (lr), .weight_decay = (decay), .local = (at_home)},
    PS_TRAIN_OPTIMIZER_LIST(X)
#undef X
        {0},
};

/* The bound of "ssp:S"; false when `text` is something else. */
static bool parse_bound(const char *text, uint32_t *ret)
{
    if (strncmp(text, "ssp:", 4) != 0) {
        return false;
    }
    uint64_t bound = 0;
    const char *at = text + 4;
    if (*at == '\0') {
        return false;
    }
    for (; *at != '\0'; at++) {
        if (*at < '0' || *at > '9') {
            return false;
        }
        bound = bound * 10 + (uint64_t)(*at - '0');
        if (bound > STALENESS_MAX) {
            return false;
        }
    }
    *ret = (uint32_t)bound;
    return true;
}

/* A bound of 0 is bsp, however it was written. */
static void set_bound(struct ps_consistency *consistency, uint32_t bound)
{
    consistency->mode = bound == 0 ? PS_CONSISTENCY_BSP : PS_CONSISTENCY_SSP;
    consistency->bound = bound;
}

static enum ps_status parse_consistency(const struct ps_train_options *options,
                                        struct ps_consistency *ret, struct ps_error *err)
{
    const char *text = options->consistency;
    uint32_t bound = options->staleness;
    struct ps_conf_words first;
    struct ps_conf_words second;
    if (text != NULL && options->staleness_given) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%s and %s contradict each other; "
                       "--staleness S is short for --consistency ssp:S",
                       ps_conf_say(options->conf, "staleness", &first),
                       ps_conf_say(options->conf, "consistency", &second));
    }
    *ret = (struct ps_consistency){.version = 1};
    if (text == NULL && options->aggregate && !options->staleness_given) {
        text = "bsp"; /* --aggregate alone: nothing else can be aggregated. */
    }
    if (text == NULL || parse_bound(text, &bound)) {
        set_bound(ret, bound);
    } else if (strcmp(text, "bsp") == 0) {
        set_bound(ret, 0);
    } else if (strcmp(text, "asp") == 0) {
        ret->mode = PS_CONSISTENCY_ASP;
    } else {
        return ps_fail(err, PS_ERR_INVALID, "%s: expected bsp, ssp:S (as ssp:4) or asp",
                       ps_conf_say(options->conf, "consistency", &first));
    }
    ret->aggregate = options->aggregate;
    ret->n_backups = options->backup_workers;
    return PS_OK;
}

static enum ps_status check_aggregate(const struct ps_train_options *options,
                                      const struct ps_consistency *consistency,
                                      struct ps_error *err)
{
    struct ps_conf_words first;
    struct ps_conf_words second;
    if (options->aggregate && consistency->mode != PS_CONSISTENCY_BSP) {
        const char *other = options->staleness_given ? "staleness" : "consistency";
        return ps_fail(err, PS_ERR_INVALID,
                       "%s averages one step of all workers: it needs --consistency bsp, not %s",
                       ps_conf_say(options->conf, "aggregate", &first),
                       ps_conf_say(options->conf, other, &second));
    }
    if (options->backup_workers > 0 && !options->aggregate) {
        return ps_fail(err, PS_ERR_INVALID, "%s needs --consistency bsp --aggregate",
                       ps_conf_say(options->conf, "backup-workers", &first));
    }
    if (options->backup_workers >= options->workers && options->backup_workers > 0) {
        return ps_fail(err, PS_ERR_INVALID, "%s: must be below %s, which is %" PRIu32,
                       ps_conf_say(options->conf, "backup-workers", &first),
                       ps_conf_say(options->conf, "workers", &second), options->workers);
    }
    return PS_OK;
}

enum ps_status ps_train_consistency(const struct ps_train_options *options,
                                    struct ps_consistency *ret, struct ps_error *err)
{
    enum ps_status status = parse_consistency(options, ret, err);
    return status == PS_OK ? check_aggregate(options, ret, err) : status;
}

void ps_train_consistency_text(const struct ps_consistency *consistency,
                               char text[PS_TRAIN_CONSISTENCY_BYTES])
{
    switch (consistency->mode) {
    case PS_CONSISTENCY_SSP:
        (void)snprintf(text, PS_TRAIN_CONSISTENCY_BYTES, "ssp:%" PRIu32, consistency->bound);
        break;
    case PS_CONSISTENCY_ASP: (void)snprintf(text, PS_TRAIN_CONSISTENCY_BYTES, "asp"); break;
    case PS_CONSISTENCY_BSP:
    case PS_CONSISTENCY_NONE: (void)snprintf(text, PS_TRAIN_CONSISTENCY_BYTES, "bsp"); break;
    }
}

enum ps_status ps_train_blame(const struct ps_train_options *options, const char *name,
                              enum ps_status status, struct ps_error *err)
{
    if (status == PS_OK || options->conf == NULL) {
        return status;
    }
    struct ps_conf_words words;
    return ps_wrap(err, status, "%s", ps_conf_say(options->conf, name, &words));
}

enum ps_status ps_train_schedule(const struct ps_train_options *options, float rate,
                                 struct ps_schedule *ret, struct ps_error *err)
{
    return ps_train_blame(options, "schedule", ps_schedule_parse(options->schedule, rate, ret, err),
                          err);
}

/* Settings that say something to some of the rules only. */
static const struct {
    const char *name;
    const char *rules;
} of_rules[] = {
    {"momentum", "momentum"},
    {"beta1", "adam and adamw"},
    {"beta2", "adam and adamw"},
    {"epsilon", "adagrad, adam and adamw"},
};

enum ps_status ps_train_check_rule(const struct ps_train_options *options,
                                   const struct ps_train_optimizer *optimizer, struct ps_error *err)
{
    struct ps_conf_words words;
    struct ps_conf_words more;
    char rule[48];
    (void)snprintf(rule, sizeof(rule), "--optimizer %.16s (the model's)", optimizer->name);
    bool asked = optimizer == &ps_train_optimizers[options->optimizer];
    const char *here = asked ? ps_conf_say(options->conf, "optimizer", &more) : rule;
    if (options->weight_decay_given && optimizer->weight_decay < 0.0f) {
        return ps_fail(err, PS_ERR_INVALID, "%s belongs to --optimizer adamw; with %s use --l2",
                       ps_conf_say(options->conf, "weight-decay", &words), here);
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(of_rules); i++) {
        if (strstr(of_rules[i].rules, optimizer->name) == NULL &&
            ps_train_given(options, of_rules[i].name)) {
            return ps_fail(err, PS_ERR_INVALID, "%s belongs to --optimizer %s, not to %s",
                           ps_conf_say(options->conf, of_rules[i].name, &words), of_rules[i].rules,
                           here);
        }
    }
    return PS_OK;
}

bool ps_train_given(const struct ps_train_options *options, const char *name)
{
    return options->conf != NULL && ps_conf_given(options->conf, name);
}
