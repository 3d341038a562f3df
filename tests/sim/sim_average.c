/*
 * sim_average.c — were the averages of aggregated steps taken over exactly the right units?
 *
 * A unit of n rows that pushed G and shows the value v was divided by N = G n / v. All units of one
 * step must name the same N, and their own rows must make up N.
 */
#include <inttypes.h>
#include <math.h>

#include "sim/sim_ledger.h"

#define UNHEARD_MAX 16u
#define GUESSES_MAX (1u << 16)

/* A unit that is in and that nobody was told about, with the steps that it may belong to. */
struct unheard {
    struct sim_unit *unit;
    uint64_t steps[SIM_TRIES_MAX];
    uint32_t n_steps;
    uint32_t guess; /* Index in `steps`. */
};

struct guesswork {
    struct unheard at[UNHEARD_MAX];
    uint32_t n;
};

static bool alike(double a, double b)
{
    return fabs(a - b) < 0.001 * a;
}

/* The rows of its step, as the value of a unit names them. */
static double rows_said(const struct sim_unit *unit)
{
    return (double)SIM_GRADIENT * unit->n_rows / (double)unit->value;
}

static bool in_step(const struct sim_unit *unit, uint64_t step)
{
    return unit->acked && unit->acked_step == step && unit->n_rows > 0 && unit->value != 0.0f;
}

/* Nobody was told, yet it is in. */
static bool unheard(const struct sim_unit *unit)
{
    return !unit->acked && unit->value != 0.0f;
}

static uint64_t steps_end(const struct sim_ledger *ledger)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < ledger->n_units; i++) {
        const struct sim_unit *unit = &ledger->units[i];
        end = unit->acked && unit->acked_step >= end ? unit->acked_step + 1 : end;
    }
    return end;
}

/* Could it have been in that step, as far as units say that surely were? */
static bool may_fit(const struct sim_ledger *ledger, const struct sim_unit *unit, uint64_t step)
{
    for (uint32_t i = 0; i < ledger->n_units; i++) {
        if (in_step(&ledger->units[i], step)) {
            return alike(rows_said(&ledger->units[i]), rows_said(unit));
        }
    }
    return true;
}

/* False, and the rows that there are and that were divided by, when the step does not add up. */
static bool adds_up(const struct sim_ledger *ledger, uint64_t step, double *ret_rows,
                    double *ret_said)
{
    double rows = 0.0;
    double said = 0.0;
    bool agree = true;
    for (uint32_t i = 0; i < ledger->n_units; i++) {
        const struct sim_unit *unit = &ledger->units[i];
        if (in_step(unit, step)) {
            agree = agree && (said <= 0.0 || alike(said, rows_said(unit)));
            said = rows_said(unit);
            rows += unit->n_rows;
        }
    }
    *ret_rows = rows;
    *ret_said = said;
    return agree && (rows <= 0.0 || alike(rows, said));
}

static bool all_add_up(const struct sim_ledger *ledger)
{
    uint64_t end = steps_end(ledger);
    double rows;
    double said;
    for (uint64_t step = 0; step < end; step++) {
        if (!adds_up(ledger, step, &rows, &said)) {
            return false;
        }
    }
    return true;
}

static void collect(struct sim_ledger *ledger, struct guesswork *work)
{
    for (uint32_t i = 0; i < ledger->n_units && work->n < UNHEARD_MAX; i++) {
        struct sim_unit *unit = &ledger->units[i];
        if (!unheard(unit)) {
            continue;
        }
        struct unheard *at = &work->at[work->n];
        *at = (struct unheard){.unit = unit};
        for (uint32_t t = 0; t < unit->n_tries; t++) {
            if (may_fit(ledger, unit, unit->tries[t])) {
                at->steps[at->n_steps++] = unit->tries[t];
            }
        }
        work->n += at->n_steps > 0;
    }
}

/* The next guess, as an odometer counts. False after the last. */
static bool next_guess(struct guesswork *work)
{
    for (uint32_t i = 0; i < work->n; i++) {
        work->at[i].guess++;
        if (work->at[i].guess < work->at[i].n_steps) {
            return true;
        }
        work->at[i].guess = 0;
    }
    return false;
}

static void take_guess(struct guesswork *work)
{
    for (uint32_t i = 0; i < work->n; i++) {
        work->at[i].unit->acked = true;
        work->at[i].unit->acked_step = work->at[i].steps[work->at[i].guess];
    }
}

void sim_average_close(struct sim_ledger *ledger)
{
    struct guesswork work = {.n = 0};
    uint32_t n_guesses = 0;
    bool fits;
    collect(ledger, &work);
    do {
        take_guess(&work);
        fits = all_add_up(ledger);
        n_guesses++;
    } while (!fits && n_guesses < GUESSES_MAX && next_guess(&work));
    uint64_t end = steps_end(ledger);
    for (uint64_t step = 0; step < end && !fits; step++) {
        double rows;
        double said;
        if (!adds_up(ledger, step, &rows, &said)) {
            sim_break(ledger->world, "average: step %" PRIu64 " has %g rows, divided by %g", step,
                      rows, said);
        }
    }
}
