#ifndef PS_SERVER_COORD_BACK_CORE_H
#define PS_SERVER_COORD_BACK_CORE_H
/*
 * coord/back_core.h — a coordinator that does not begin with nothing: it takes over from the one
 * before, or the whole job goes back to a cut.
 *
 * A takeover finds places, sessions and the job in the store, exactly as they were last told. It
 * ends when all have been heard (rule 4). Going back is one event, so one write (rule 11): a new
 * generation, the cut's leases and clock, no sessions, new epochs for all slots.
 */
#include "coord/coord_core.h"

/* A place as the store has it. */
struct ps_coord_stored_place {
    struct ps_id id;
    struct ps_id incarnation;
    uint64_t number; /* Of its session. */
    uint32_t durability;
    bool placed;
    bool gone;        /* Its process has left. */
    const char *name; /* Bounded as in ps_coord_join. */
    const char *address;
};

/* A session as the store has it. */
struct ps_coord_stored_session {
    enum ps_coord_kind kind;
    struct ps_id session;
    uint64_t number;
    const char *name;
    bool unleased;
    bool opened;
    bool closing;
    uint64_t opened_version;
    uint64_t closed_version;
    uint64_t clock;
    uint64_t lease;
    uint64_t lease_clock;
    uint32_t lease_units;
    struct ps_coord_staged staged;
};

/* What a cut says of the job, for going back to it. */
struct ps_coord_back {
    uint64_t cut_generation;
    uint64_t cut;
    uint64_t min_clock;
    bool started;                     /* Leases were lent. */
    const struct ps_lease_pool *pool; /* Its leases; NULL: no job is defined. */
};

/* What slots of another life know already: everything that follows is higher. */
struct ps_coord_beyond {
    uint64_t session_number;
    uint64_t sessions_version;
    uint64_t finished_version;
    uint64_t placement_version;
    uint64_t epochs[PS_SLOTS];
};

/* ---- Taking over: after init, in this order ------------------------------------------------ */

/** All places, [n_servers]; placement and epochs stand in the core already. */
void ps_coord_resume_places(struct ps_coord_core *core, uint64_t now_ms,
                            const struct ps_coord_stored_place *places);

/** One session; the job's pool stands in the core. @return PS_ERR_CORRUPT */
PS_MUST_CHECK enum ps_status ps_coord_resume_session(struct ps_coord_core *core, uint64_t now_ms,
                                                     const struct ps_coord_stored_session *from,
                                                     struct ps_error *err);

/** All is as it was: nothing is announced before everybody has been heard. */
void ps_coord_resumed(struct ps_coord_core *core);

/* ---- Going back ---------------------------------------------------------------------------- */

/** Numbers continue beyond those that the cut's slots have seen. Before the placement. */
void ps_coord_go_beyond(struct ps_coord_core *core, const struct ps_coord_beyond *beyond);

/**
 * The whole job goes back to a cut, under a new generation; `reason` says why. It is RESTORING
 * until every server has loaded. Not when it is over.
 */
void ps_coord_go_back(struct ps_coord_core *core, uint64_t now_ms, const struct ps_coord_back *back,
                      const char *reason);

#endif
