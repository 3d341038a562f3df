/* member_core.c — see member_core.h. */
#include "coord/member_core.h"

#include "base/assert.h"

#define TO(state) (1u << PS_MEMBER_##state)

static const struct {
    const char *name;
    uint32_t next; /* Bit set of the states it may become. */
} states[PS_MEMBER_STATE_COUNT] = {
    [PS_MEMBER_JOINING] = {.name = "joining", .next = TO(LIVE) | TO(LEFT) | TO(DEAD)},
    [PS_MEMBER_LIVE] = {.name = "live", .next = TO(SUSPECT) | TO(LEFT)},
    [PS_MEMBER_SUSPECT] = {.name = "suspect", .next = TO(LIVE) | TO(LEFT) | TO(DEAD) | TO(AWAY)},
    [PS_MEMBER_AWAY] = {.name = "away", .next = TO(LIVE) | TO(LEFT)},
    [PS_MEMBER_LEFT] = {.name = "left", .next = 0},
    [PS_MEMBER_DEAD] = {.name = "dead", .next = 0},
};

void ps_member_move(struct ps_member *member, enum ps_member_state next)
{
    PS_ASSERT(next < PS_MEMBER_STATE_COUNT);
    PS_ASSERT((states[member->state].next & (1u << next)) != 0);
    member->state = next;
}

struct ps_member ps_member_joined(uint64_t now_ms)
{
    return (struct ps_member){.state = PS_MEMBER_JOINING, .heard_ms = now_ms};
}

void ps_member_opened(struct ps_member *member, uint64_t now_ms)
{
    ps_member_move(member, PS_MEMBER_LIVE);
    member->heard_ms = now_ms;
    member->broken = false;
}

bool ps_member_heard(struct ps_member *member, uint64_t now_ms)
{
    PS_ASSERT(now_ms >= member->heard_ms);
    if (ps_member_ended(member)) {
        return false;
    }
    member->heard_ms = now_ms;
    member->broken = false;
    if (member->state == PS_MEMBER_SUSPECT || member->state == PS_MEMBER_AWAY) {
        ps_member_move(member, PS_MEMBER_LIVE);
    }
    return true;
}

void ps_member_broke(struct ps_member *member, uint64_t now_ms)
{
    if (ps_member_ended(member)) {
        return;
    }
    member->broken = true;
    member->broken_ms = now_ms;
    if (member->state == PS_MEMBER_LIVE) {
        ps_member_move(member, PS_MEMBER_SUSPECT);
    }
}

void ps_member_leave(struct ps_member *member)
{
    if (!ps_member_ended(member)) {
        ps_member_move(member, PS_MEMBER_LEFT);
    }
}

bool ps_member_tick(struct ps_member *member, uint64_t now_ms, const struct ps_member_times *times)
{
    PS_ASSERT(now_ms >= member->heard_ms);
    PS_ASSERT(PS_IMPLIES(member->broken, now_ms >= member->broken_ms));
    if (ps_member_ended(member) || member->state == PS_MEMBER_AWAY) {
        return false;
    }
    uint64_t silent_ms = now_ms - member->heard_ms;
    if (member->state == PS_MEMBER_LIVE && silent_ms > times->silence_ms / 2) {
        ps_member_move(member, PS_MEMBER_SUSPECT);
    }
    bool away = member->broken && now_ms - member->broken_ms > times->grace_ms;
    if (away || silent_ms > times->silence_ms) {
        ps_member_move(member, member->returns ? PS_MEMBER_AWAY : PS_MEMBER_DEAD);
        return true;
    }
    return false;
}

void ps_member_forgive(struct ps_member *member, uint64_t now_ms)
{
    member->heard_ms = now_ms;
    member->broken_ms = now_ms;
}

bool ps_member_ended(const struct ps_member *member)
{
    return member->state == PS_MEMBER_LEFT || member->state == PS_MEMBER_DEAD;
}

const char *ps_member_state_name(enum ps_member_state state)
{
    PS_ASSERT(state < PS_MEMBER_STATE_COUNT);
    return states[state].name;
}
