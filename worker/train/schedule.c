/* schedule.c — see schedule.h. */
#include "train/schedule.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define FORMS "constant, step:EVERY:FACTOR or cosine, perhaps with ,warmup:STEPS behind it"

static const double pi = 3.14159265358979323846;

/* True when the text at `*at` begins with `word`; moves behind it. */
static bool take_word(const char **at, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0) {
        return false;
    }
    *at += n;
    return true;
}

/* Read a whole number of steps, at least 1 and within 63 bits. */
static bool take_steps(const char **at, uint64_t *ret)
{
    uint64_t value = 0;
    const char *digit = *at;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (value > (INT64_MAX - 9) / 10) {
            return false;
        }
        value = value * 10 + (uint64_t)(*digit - '0');
    }
    *at = digit;
    *ret = value;
    return value > 0;
}

static bool take_factor(const char **at, double *ret)
{
    if (!((**at >= '0' && **at <= '9') || **at == '.')) {
        return false; /* strtod would also take blanks, signs, "inf" and "nan". */
    }
    char *end = NULL;
    *ret = strtod(*at, &end);
    *at = end;
    return *ret > 0.0 && *ret <= 1.0;
}

static bool take_schedule(const char *at, struct ps_schedule *schedule)
{
    if (take_word(&at, "constant")) {
        schedule->kind = PS_SCHEDULE_CONSTANT;
    } else if (take_word(&at, "cosine")) {
        schedule->kind = PS_SCHEDULE_COSINE;
    } else if (take_word(&at, "step:")) {
        schedule->kind = PS_SCHEDULE_STEP;
        if (!take_steps(&at, &schedule->every) || !take_word(&at, ":") ||
            !take_factor(&at, &schedule->factor)) {
            return false;
        }
    } else {
        return false;
    }
    if (take_word(&at, ",warmup:") && !take_steps(&at, &schedule->warmup_steps)) {
        return false;
    }
    return *at == '\0';
}

enum ps_status ps_schedule_parse(const char *text, float rate, struct ps_schedule *ret,
                                 struct ps_error *err)
{
    if (!(rate > 0.0f) || !isfinite(rate)) {
        return ps_fail(err, PS_ERR_INVALID, "a learning rate must be a number above 0, got %g",
                       (double)rate);
    }
    struct ps_schedule schedule = {.rate = rate};
    if (!take_schedule(text, &schedule)) {
        return ps_fail(err, PS_ERR_INVALID, "learning-rate schedule '%s': expected %s", text,
                       FORMS);
    }
    *ret = schedule;
    return PS_OK;
}

static double cosine(uint64_t step, uint64_t n_steps)
{
    if (step >= n_steps) {
        return 0.0;
    }
    return 0.5 * (1.0 + cos(pi * (double)step / (double)n_steps));
}

float ps_schedule_rate(const struct ps_schedule *schedule, uint64_t step, uint64_t total_steps)
{
    if (step < schedule->warmup_steps) {
        return (float)((double)schedule->rate * (double)(step + 1) /
                       (double)schedule->warmup_steps);
    }
    uint64_t done = step - schedule->warmup_steps;
    double factor = 1.0;
    uint64_t n_drops = 0;
    switch (schedule->kind) {
    case PS_SCHEDULE_CONSTANT: break;
    case PS_SCHEDULE_STEP:
        PS_ASSERT(schedule->every > 0);
        n_drops = done / schedule->every;
        factor = pow(schedule->factor, (double)n_drops);
        break;
    case PS_SCHEDULE_COSINE:
        if (total_steps > 0) {
            uint64_t warmup = schedule->warmup_steps;
            factor = cosine(done, total_steps > warmup ? total_steps - warmup : 0);
        }
        break;
    }
    return (float)((double)schedule->rate * factor);
}
