#ifndef PS_SERVER_COORD_MEMBER_CORE_H
#define PS_SERVER_COORD_MEMBER_CORE_H
/*
 * coord/member_core.h — is this member alive? One struct per member; pure.
 *
 *              opened           silent > silence / 2, or its stream broke
 *   JOINING ----------> LIVE <---------------------------------------> SUSPECT
 *      |                                     heard                        |
 *      | silent > silence                         silent > silence, or    |
 *      +---------------------------> DEAD <-------broken > grace----------+
 *
 *   JOINING, LIVE, SUSPECT, AWAY --leave--> LEFT
 *
 *   Who `returns` is AWAY where others are DEAD: what it holds is waited for. AWAY --heard--> LIVE.
 *
 *   LEFT and DEAD are final: who comes back joins under a new session, so that a late message of
 *   the old life can never be taken for one of the new.
 */
#include <stdbool.h>
#include <stdint.h>

enum ps_member_state {
    PS_MEMBER_JOINING,
    PS_MEMBER_LIVE,
    PS_MEMBER_SUSPECT,
    PS_MEMBER_LEFT,
    PS_MEMBER_DEAD,
    PS_MEMBER_AWAY,
    PS_MEMBER_STATE_COUNT
};

struct ps_member {
    enum ps_member_state state;
    bool broken;        /* Its stream broke and no other sign of life has come since. */
    bool returns;       /* It is AWAY, not DEAD, when it is silent for too long. */
    uint64_t heard_ms;  /* Monotonic time of the last sign of life. */
    uint64_t broken_ms; /* When the stream broke; with `broken`. */
};

struct ps_member_times {
    uint32_t grace_ms;   /* A member whose stream broke may return within. */
    uint32_t silence_ms; /* A silent member is dead after. */
};

/** Joined at `now_ms`. */
struct ps_member ps_member_joined(uint64_t now_ms);

/** It is let in; that is a sign of life too, for it had to wait. */
void ps_member_opened(struct ps_member *member, uint64_t now_ms);

/** A sign of life arrived. False when it came too late: the sender must join again. */
bool ps_member_heard(struct ps_member *member, uint64_t now_ms);

/** Its stream broke. */
void ps_member_broke(struct ps_member *member, uint64_t now_ms);

/** It said goodbye. */
void ps_member_leave(struct ps_member *member);

/** Time has passed. True when this made the member DEAD, once in its life, or AWAY. */
bool ps_member_tick(struct ps_member *member, uint64_t now_ms, const struct ps_member_times *times);

/** The observer itself was away until `now_ms`: what it did not hear says nothing. */
void ps_member_forgive(struct ps_member *member, uint64_t now_ms);

/** LEFT or DEAD. */
bool ps_member_ended(const struct ps_member *member);

/** The word in logs and Describe. */
const char *ps_member_state_name(enum ps_member_state state);

/** The only way to change a state: asserts that the picture above has the arrow. */
void ps_member_move(struct ps_member *member, enum ps_member_state next);

#endif
