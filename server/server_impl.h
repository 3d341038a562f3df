#ifndef PS_SERVER_SERVER_IMPL_H
#define PS_SERVER_SERVER_IMPL_H
/*
 * server_impl.h — the inside of a server, shared by server.c (start, stop), server_parts.c (its
 * parts, one by one) and what lasts. Nobody else includes it.
 */
#include "coord/coord.h"
#include "coord/store.h"
#include "server.h"
#include "server_lasting.h"
#include "slot/lane.h"
#include "svc/attend.h"
#include "svc/elsewhere.h"
#include "svc/health.h"
#include "svc/reflection.h"
#include "svc/svc_data.h"
#include "svc/svc_part.h"

#define PS_SERVER_METHODS_MAX                                                             \
    (PS_SVC_DATA_METHODS + PS_COORD_METHODS + PS_HEALTH_METHODS + PS_REFLECTION_METHODS + \
     PS_SVC_PART_METHODS)

/* What health knows by name; the coordinator only where it lives. */
enum served {
    SERVED_ALL,
    SERVED_DATA,
    SERVED_COORD,
    SERVED_COUNT
};
struct lane_stop {
    struct ps_mail mail;
    struct ps_server *server;
};

struct ps_server {
    struct ps_server_options options;
    struct ps_catalogue catalogue;
    struct ps_lane *lanes[PS_LANES_MAX];
    struct ps_svc_data svc;
    struct ps_svc_part parts; /* Served where there is a snapshot directory. */
    struct ps_method methods[PS_SERVER_METHODS_MAX];
    struct ps_health *health;
    struct ps_reflection reflection;
    struct ps_listener *listener;
    struct ps_svc_elsewhere elsewhere;          /* When it does not coordinate. */
    char coordinator[PS_ADDRESS_BYTES_MAX + 1]; /* For the same. */
    char address[PS_ADDRESS_BYTES_MAX + 1];     /* What others dial. */
    struct ps_store *store;                     /* Coordinator only, as the next. */
    struct ps_cut_keeper *keeper;
    struct ps_coord *coord;
    struct ps_attend *attend;
    struct server_lasting lasting;
    struct ps_timer settle; /* Stopping: looks whether the rest is idle. */
    struct lane_stop stops[PS_LANES_MAX];
    uint32_t n_lanes_stopped;
    uint32_t n_parts_stopping; /* Attending, and the lanes with their log. */
    bool listener_stopped;
    uint32_t n_waits; /* Looks before the listener was stopped. */
    void (*stop_done)(void *arg);
    void *stop_arg;
};

/* ---- The parts, in the order of making; in server_parts.c ----------------------------------- */

/** What can be wrong with the words, found before anybody can call: later there is no way back. */
PS_MUST_CHECK enum ps_status server_check_words(const struct ps_server_options *options,
                                                struct ps_error *err);
PS_MUST_CHECK enum ps_status server_make_lanes(struct ps_server *server, struct ps_error *err);
PS_MUST_CHECK enum ps_status server_make_coord(struct ps_server *server, struct ps_error *err);
PS_MUST_CHECK enum ps_status server_make_health(struct ps_server *server, struct ps_error *err);
PS_MUST_CHECK enum ps_status server_open_listener(struct ps_server *server, struct ps_error *err);
PS_MUST_CHECK enum ps_status server_start_attending(struct ps_server *server, struct ps_error *err);

/** The view of attending changed. In server.c. */
void server_attend_changed(void *arg);

#endif
