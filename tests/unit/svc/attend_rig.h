#ifndef PS_TESTS_UNIT_SVC_ATTEND_RIG_H
#define PS_TESTS_UNIT_SVC_ATTEND_RIG_H
/*
 * attend_rig.h — a server's membership against a coordinator, and things that last, which the test
 * plays.
 */
#include <check.h>

#include "coordinator.pb-c.h"
#include "port/direct.h"
#include "svc/attend_impl.h"

#define LANES   2u
#define NUMBER  7u /* Session number that the coordinator gives. */
#define GIVE_UP 4000u
#define CLUSTER 7u /* First byte of its id. */

extern struct ps_mem mem;
extern struct ps_inline_exec exec;
extern struct ps_inline_exec lane_exec; /* Turned by hand. */
extern bool lanes_apart;                /* Of the next start: lanes run there. */
extern struct ps_catalogue catalogue;
extern struct ps_lane *lanes[LANES];
extern struct ps_svc_data svc;
extern struct ps_attend *attend;
extern uint32_t n_changed;
extern uint32_t n_stopped;
extern bool lasts;
extern enum ps_lasting_when when; /* Its answer to tables and restores. */
extern uint32_t n_tables_logged;
extern uint64_t restored_slots;
extern uint64_t cut_ordered;
extern uint64_t cut_kept;
extern uint64_t oldest[2]; /* Generation and cut. */
extern uint64_t cut_given_up;
extern Ps__V1__RestoreOrder *restore_order; /* Goes with say_all; NULL: none. */
extern struct ps_stream *stream;
extern enum ps_status join_answer;
extern uint32_t join_protocol;
extern uint8_t wanted_cluster; /* First byte, as of the next; 0: none. */
extern uint8_t asked_cluster;
extern bool hangs; /* It does not end a stream that the server has ended. */
extern uint32_t n_joins;
extern uint32_t n_streams;
extern uint32_t n_reports;
extern const struct ps_id session;
/* What the server reported last. */
extern struct reported {
    uint64_t number, term, placement, sessions, catalogue, finished, closed_steps;
    uint64_t generation_loaded, taken, written;
} seen;

void on_closed(void *arg, enum ps_status status);
void stopped(void *arg);
void pass_ms(uint64_t ms);
void start(void);
void open_all(void);
void close_rest(void);
void close_all(void);
struct ps_attend_view view(void);
void say(const Ps__V1__AttendState *state);
Ps__V1__AttendState plain(uint64_t term);
void say_all(uint64_t version);

#endif
