#ifndef PS_SERVER_COORD_COORD_STATE_H
#define PS_SERVER_COORD_COORD_STATE_H
/*
 * coord/coord_state.h — what is true now, as generated messages that borrow.
 *
 * Every function fills structs of the coordinator's one scratch and returns a pointer into it: the
 * message is valid until the same function is called again, and nothing is allocated.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "coord/cuts.h"
#include "coord/lease_core.h"
#include "coordinator.pb-c.h"

struct ps_coord;

/* What a stream was last told; all zero: nothing. */
struct coord_told {
    bool any;
    uint64_t placement;
    uint64_t catalogue;
    uint64_t sessions;
    uint64_t finished;
    uint64_t consistency;
    uint64_t closed_below; /* 1 + step of the close; 0: none. */
    uint64_t min_clock;
    uint64_t lease;
    uint64_t generation;
    uint64_t hold;   /* Workers. */
    uint64_t cut;    /* Servers: to be taken, */
    uint64_t kept;   /*   the oldest of this generation that is kept, */
    uint64_t oldest; /* and of any. */
    bool loads;      /* A server that must load before it hears the rest. */
    int job;
    bool fenced;
};

struct coord_scratch {
    Ps__V1__AttendState state;
    Ps__V1__Placement placement;
    Ps__V1__Server servers[PS_SERVERS_MAX];
    Ps__V1__Server *server_list[PS_SERVERS_MAX];
    Ps__V1__Catalogue catalogue;
    Ps__V1__Table tables[PS_TABLES_MAX];
    Ps__V1__Table *table_list[PS_TABLES_MAX];
    Ps__V1__OpenSessions sessions;
    Ps__V1__OpenSession open[PS_SESSIONS_MAX];
    Ps__V1__OpenSession *open_list[PS_SESSIONS_MAX];
    Ps__V1__StagedSessions staged;
    uint64_t staged_list[PS_SESSIONS_MAX];
    Ps__V1__FinishedLeases finished;
    Ps__V1__LeaseRange ranges[PS_LEASE_RANGES_MAX];
    Ps__V1__LeaseRange *range_list[PS_LEASE_RANGES_MAX];
    Ps__V1__Consistency consistency;
    Ps__V1__CloseStep close;
    Ps__V1__CloseEntry entries[PS_SESSIONS_MAX];
    Ps__V1__CloseEntry *entry_list[PS_SESSIONS_MAX];
    Ps__V1__Lease lease;
    Ps__V1__CutOrder cut;
    Ps__V1__RestoreOrder restore;
    char cut_name[PS_CUT_NAME_BYTES];
};

Ps__V1__Placement *coord_placement(struct ps_coord *coord);
Ps__V1__Catalogue *coord_catalogue(struct ps_coord *coord);
Ps__V1__OpenSessions *coord_sessions(struct ps_coord *coord);
Ps__V1__FinishedLeases *coord_finished(struct ps_coord *coord);
Ps__V1__Consistency *coord_consistency(struct ps_coord *coord);
Ps__V1__CloseStep *coord_close_step(struct ps_coord *coord);
/** Table `number` of the catalogue. */
Ps__V1__Table *coord_table_at(struct ps_coord *coord, uint32_t number);

/** How long members are to wait for whoever is silent. */
uint32_t coord_patience_ms(const struct ps_coord *coord);

/** What a member would know after being told everything. */
struct coord_told coord_told_now(const struct ps_coord *coord, uint32_t member);

/** Whether `now` has something that a member which knows `old` should hear at once. */
bool coord_told_news(const struct ps_coord *coord, uint32_t member, const struct coord_told *old,
                     const struct coord_told *now);

/** The state for a member that knows `old` and, after this message, `now`. */
Ps__V1__AttendState *coord_state(struct ps_coord *coord, uint32_t member,
                                 const struct coord_told *old, const struct coord_told *now);

/** The state for somebody whose session is not known. */
Ps__V1__AttendState *coord_state_unknown(struct ps_coord *coord);

/** Generated structs have no const; nothing writes through them. */
static inline char *coord_text(const char *text)
{
    return (char *)(uintptr_t)text; /* NOLINT(performance-no-int-to-ptr) */
}

static inline ProtobufCBinaryData coord_bytes(const uint8_t *data, size_t n_bytes)
{
    uint8_t *unconst = (uint8_t *)(uintptr_t)data; /* NOLINT(performance-no-int-to-ptr) */
    return (ProtobufCBinaryData){.len = n_bytes, .data = unconst};
}

#endif
