#ifndef PS_SERVER_SVC_ATTEND_H
#define PS_SERVER_SVC_ATTEND_H
/*
 * svc/attend.h — a server's membership: joins, attends, carries the coordinator's news to the
 * lanes and their acknowledgements back.
 *
 *   JOINING --Join answered--> ATTENDING --stream broke--> ATTENDING (another stream, back-off)
 *                                  |--coordinator silent for give_up_ms, fenced--> LOST
 *
 * News of one stream become updates of all lanes in the order of arrival, placement before min
 * clock; a version is acknowledged when every lane has applied it. An actor on the main executor.
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/mem.h"
#include "obs/metric.h"
#include "port/exec.h"
#include "port/transport.h"
#include "slot/catalogue.h"
#include "slot/lane.h"
#include "svc/lasting.h"
#include "svc/svc_data.h"

struct ps_attend;

struct ps_attend_options {
    struct ps_transport *transport;
    struct ps_exec *exec;
    struct ps_mem *mem;
    struct ps_metrics *metrics;
    const struct ps_creds *creds;
    const char *coordinator; /* Address; copied. */
    const char *address;     /* Our own, for others; copied. */
    const char *name;        /* Copied. */
    struct ps_id session;
    struct ps_id cluster_id;    /* To join; none: whichever it is. */
    struct ps_id server;        /* Of the data directory: stays; none: there is none. */
    uint64_t generation;        /* Of the slots that the lanes have; 0: they have none. */
    uint32_t durability;        /* enum Durability of the wire. */
    struct ps_lasting *lasting; /* What outlives the process; NULL: nothing. */
    /** Of silence; three times as long before it has joined. 0: what the coordinator says, before
     * that 10 s. */
    uint32_t give_up_ms;
    uint64_t seed;                  /* Of the back-off's jitter. */
    struct ps_catalogue *catalogue; /* Appended to here. */
    struct ps_lane *const *lanes;
    uint32_t n_lanes;
    struct ps_svc_data *svc;    /* Its generation is set here. */
    void (*changed)(void *arg); /* The view changed. */
    void *arg;
};

/** What became of a part of a cut. */
struct ps_attend_written {
    uint64_t cut;
    struct ps_error err; /* status PS_OK: it is on disk. */
    uint64_t n_bytes;
    uint8_t checksum[16];
    uint64_t ms;
};

struct ps_attend_view {
    bool joined;
    bool placed;        /* Its lanes know which slots are theirs. */
    uint32_t index;     /* In the placement. */
    uint32_t n_servers; /* Of the latest placement; 0: none yet. */
    uint64_t generation;
    struct ps_id cluster; /* Once joined. */
    uint32_t job;         /* enum JobState of the wire. */
    struct ps_error lost; /* status != PS_OK: nothing more will come; why. */
};

/** Start joining. On the executor, or before it runs. */
PS_MUST_CHECK enum ps_status ps_attend_create(const struct ps_attend_options *options,
                                              struct ps_attend **ret, struct ps_error *err);

void ps_attend_view(const struct ps_attend *attend, struct ps_attend_view *ret);

/* ---- Answers of what lasts (lasting.h); on the executor ------------------------------------- */

/** The oldest definition under way is durable, or why it never will be. */
void ps_attend_logged(struct ps_attend *attend, const struct ps_error *err);

/** The lanes hold the cut, or why they never will. */
void ps_attend_restored(struct ps_attend *attend, const struct ps_error *err);

/** All slots have given their part of this cut. */
void ps_attend_cut_taken(struct ps_attend *attend, uint64_t cut);

void ps_attend_cut_written(struct ps_attend *attend, const struct ps_attend_written *written);

/** What must last does not any more: the membership ends with these words. */
void ps_attend_broke(struct ps_attend *attend, const struct ps_error *err);

/** End stream and calls; `done(arg)` runs on the executor when nothing is under way. */
void ps_attend_stop(struct ps_attend *attend, void (*done)(void *arg), void *arg);

/** After `done`, or when the executor no longer runs. NULL does nothing. */
void ps_attend_destroy(struct ps_attend *attend);

#endif
