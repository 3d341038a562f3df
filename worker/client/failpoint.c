/* failpoint.c — see failpoint.h. In builds with -Dplant=true only. */
#include "client/failpoint.h"

#include <signal.h>

#include "obs/log.h"

static const char *const names[PS_FAILPOINT_PLACES] = {"between-acks", "acked", "ticked",
                                                       "unticked", "unticked-twice"};

static struct {
    struct ps_failpoint set;
    uint32_t n_met;
    const struct ps_flow *held; /* This push goes to `first` alone. */
    uint32_t first;
    uint64_t lease; /* Of the last report that said something new. */
    uint32_t units_done;
    bool over;
    bool news;  /* The report under way says something new. */
    bool muted; /* No report is sent. */
} state;

void ps_failpoint_set(const struct ps_failpoint *failpoint)
{
    state.set = *failpoint;
}

static bool waits_for(enum ps_failpoint_place place)
{
    return state.set.at > 0 && state.set.place == place;
}

static bool met(enum ps_failpoint_place place)
{
    return waits_for(place) && ++state.n_met == state.set.at;
}

static void fire(void)
{
    state.set.at = 0; /* Once. */
    ps_log(PS_LOG_WARN, "failpoint.fires", "place=%s occasion=%u signal=%s", names[state.set.place],
           state.n_met, state.set.stops ? "stop" : "kill");
    (void)raise(state.set.stops ? SIGSTOP : SIGKILL);
}

/* ---- Pushes -------------------------------------------------------------------------------- */

void ps_failpoint_push(const struct ps_flow *flow, const struct ps_route *route)
{
    if (state.held == flow) { /* The one before ended otherwise; its memory is used again. */
        state.held = NULL;
    }
    if (!waits_for(PS_FAILPOINT_BETWEEN_ACKS) || flow->n_units == 0) {
        return;
    }
    uint32_t first = route->server[flow->units[0].slot];
    bool several = false;
    for (uint32_t i = 1; i < flow->n_units; i++) {
        several = several || route->server[flow->units[i].slot] != first;
    }
    if (several && met(PS_FAILPOINT_BETWEEN_ACKS)) {
        state.held = flow;
        state.first = first;
    }
}

bool ps_failpoint_holds(const struct ps_flow *flow, uint32_t server)
{
    return state.held == flow && server != state.first;
}

void ps_failpoint_answered(const struct ps_flow *flow, const struct ps_route *route)
{
    if (state.held != flow) {
        return;
    }
    for (uint32_t i = 0; i < flow->n_units; i++) {
        const struct ps_flow_unit *unit = &flow->units[i];
        if (route->server[unit->slot] == state.first && unit->state != PS_FLOW_FINISHED) {
            return;
        }
    }
    state.held = NULL;
    fire();
}

void ps_failpoint_acked(void)
{
    if (met(PS_FAILPOINT_ACKED)) {
        fire();
    }
}

/* ---- Reports ------------------------------------------------------------------------------- */

/* Heartbeats repeat what was said. */
static bool is_news(const struct ps_worker_report *report)
{
    bool same = report->lease == state.lease && report->units_done == state.units_done &&
                report->lease_over == state.over;
    state.lease = report->lease;
    state.units_done = report->units_done;
    state.over = report->lease_over;
    return report->lease != 0 && !same;
}

bool ps_failpoint_report(const struct ps_worker_report *report)
{
    state.news = is_news(report);
    if (!state.news) {
        return !state.muted;
    }
    if (state.muted || met(PS_FAILPOINT_UNTICKED)) {
        state.muted = false; /* Whoever is continued speaks again. */
        fire();
    } else if (met(PS_FAILPOINT_UNTICKED_TWICE)) {
        state.muted = true;
        return false;
    }
    return true;
}

void ps_failpoint_reported(void)
{
    if (state.news && met(PS_FAILPOINT_TICKED)) {
        fire();
    }
}
