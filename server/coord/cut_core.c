/* cut_core.c — see cut_core.h. */
#include "coord/cut_core.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define TO(state) (1u << PS_COORD_CUT_##state)

static const uint32_t nexts[PS_COORD_CUT_STATE_COUNT] = {
    [PS_COORD_CUT_IDLE] = TO(HOLD),
    [PS_COORD_CUT_HOLD] = TO(NOTE) | TO(IDLE),
    [PS_COORD_CUT_NOTE] = TO(TAKE) | TO(IDLE),
    [PS_COORD_CUT_TAKE] = TO(WRITE) | TO(IDLE),
    [PS_COORD_CUT_WRITE] = TO(FINISH) | TO(IDLE),
    [PS_COORD_CUT_FINISH] = TO(IDLE),
};

static void move(struct ps_coord_cut *cut, enum ps_coord_cut_state next)
{
    PS_ASSERT((nexts[cut->state] & (1u << next)) != 0);
    cut->state = next;
}

void ps_coord_cut_init(struct ps_coord_cut *cut, uint64_t first, uint64_t now_ms)
{
    PS_ASSERT(first > 0);
    *cut = (struct ps_coord_cut){.next = first, .begun_ms = now_ms, .ended_ms = now_ms};
}

void ps_coord_cut_begin(struct ps_coord_cut *cut, uint64_t now_ms, uint32_t n_servers)
{
    move(cut, PS_COORD_CUT_HOLD);
    cut->number = cut->next++;
    cut->wanted = false;
    cut->let_go = false;
    cut->told = false;
    cut->let_go_ms = 0;
    cut->all_held = false;
    cut->begun_ms = now_ms;
    cut->n_servers = n_servers;
    memset(cut->shares, 0, sizeof(cut->shares));
}

void ps_coord_cut_told(struct ps_coord_cut *cut, uint64_t now_ms)
{
    PS_ASSERT(ps_coord_cut_hold(cut) != 0 && !cut->told);
    cut->told = true;
    cut->begun_ms = now_ms;
}

void ps_coord_cut_held(struct ps_coord_cut *cut, bool all)
{
    move(cut, PS_COORD_CUT_NOTE);
    cut->all_held = all;
}

void ps_coord_cut_noted(struct ps_coord_cut *cut)
{
    move(cut, PS_COORD_CUT_TAKE);
}

static bool all_taken(const struct ps_coord_cut *cut)
{
    for (uint32_t i = 0; i < cut->n_servers; i++) {
        if (!cut->shares[i].taken) {
            return false;
        }
    }
    return true;
}

static bool all_written(const struct ps_coord_cut *cut)
{
    for (uint32_t i = 0; i < cut->n_servers; i++) {
        if (!cut->shares[i].written) {
            return false;
        }
    }
    return true;
}

static void let_go(struct ps_coord_cut *cut, uint64_t now_ms)
{
    if (!cut->let_go) {
        cut->let_go = true;
        cut->let_go_ms = now_ms;
    }
}

void ps_coord_cut_reported(struct ps_coord_cut *cut, uint64_t now_ms, uint32_t server,
                           const struct ps_coord_cut_report *report)
{
    PS_ASSERT(server < PS_SERVERS_MAX);
    cut->wanted = cut->wanted || (report->wanted && !ps_coord_cut_under_way(cut));
    if ((cut->state != PS_COORD_CUT_TAKE && cut->state != PS_COORD_CUT_WRITE) ||
        server >= cut->n_servers) {
        return;
    }
    struct ps_coord_cut_share *share = &cut->shares[server];
    bool written = report->written == cut->number;
    if (written && report->failed) {
        ps_coord_cut_give_up(cut, now_ms, report->why);
        return;
    }
    share->taken = share->taken || report->taken == cut->number || written;
    if (written) {
        share->written = true;
        share->n_bytes = report->n_bytes;
        memcpy(share->checksum, report->checksum, sizeof(share->checksum));
    }
    if (cut->state == PS_COORD_CUT_TAKE && all_taken(cut)) {
        move(cut, PS_COORD_CUT_WRITE);
        cut->taken_ms = now_ms;
        let_go(cut, now_ms);
    }
    if (cut->state == PS_COORD_CUT_WRITE && all_written(cut)) {
        move(cut, PS_COORD_CUT_FINISH);
    }
}

void ps_coord_cut_release(struct ps_coord_cut *cut, uint64_t now_ms)
{
    if (ps_coord_cut_under_way(cut) && !cut->let_go) {
        let_go(cut, now_ms);
        cut->all_held = false; /* Some slots are cut while units go on. */
    }
}

void ps_coord_cut_completed(struct ps_coord_cut *cut, uint64_t now_ms)
{
    PS_ASSERT(cut->state == PS_COORD_CUT_FINISH);
    move(cut, PS_COORD_CUT_IDLE);
    cut->complete = cut->number;
    cut->ended_ms = now_ms;
}

void ps_coord_cut_give_up(struct ps_coord_cut *cut, uint64_t now_ms, const char *why)
{
    if (!ps_coord_cut_under_way(cut)) {
        return;
    }
    move(cut, PS_COORD_CUT_IDLE);
    cut->given_up = cut->number;
    cut->n_given_up++;
    cut->ended_ms = now_ms;
    (void)snprintf(cut->why, sizeof(cut->why), "%s", why);
}

bool ps_coord_cut_under_way(const struct ps_coord_cut *cut)
{
    return cut->state != PS_COORD_CUT_IDLE;
}

uint64_t ps_coord_cut_hold(const struct ps_coord_cut *cut)
{
    return ps_coord_cut_under_way(cut) && !cut->let_go ? cut->number : 0;
}

uint64_t ps_coord_cut_order(const struct ps_coord_cut *cut)
{
    return cut->state == PS_COORD_CUT_TAKE || cut->state == PS_COORD_CUT_WRITE ? cut->number : 0;
}

uint64_t ps_coord_cut_bytes(const struct ps_coord_cut *cut)
{
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < cut->n_servers; i++) {
        n_bytes += cut->shares[i].n_bytes;
    }
    return n_bytes;
}
