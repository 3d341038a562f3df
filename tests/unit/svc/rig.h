#ifndef PS_TESTS_UNIT_SVC_RIG_H
#define PS_TESTS_UNIT_SVC_RIG_H
/*
 * svc/rig.h — svc_data over real lanes with a clock and threads that the test turns by hand.
 *
 * Each lane has an inline executor of its own, so a test decides which lane works when. Two tables:
 *   weights (sgd, 2 full blocks and one of 100, slots 0 1 2)     bias (momentum, 33 floats, slot 3)
 * Sessions 1 to 4 are open. rig_close checks what holds after every test: one reply per call, every
 * byte of memory given back, nothing copied. Its own checks are PS_ASSERT, not Check's, so that a
 * fuzz target can use it too.
 */
#include "base/mem.h"
#include "fake_call.h"
#include "lib/late_commit.h"
#include "obs/metric.h"
#include "port/inline_exec.h"
#include "slot/lane.h"
#include "svc/svc_data.h"

#define RIG_TABLES         2u
#define RIG_WEIGHTS        0u
#define RIG_BIAS           1u
#define RIG_BLOCK          4096u /* Floats of a full block. */
#define RIG_LAST           100u  /* Floats of the last block of `weights`. */
#define RIG_N_WEIGHTS      (2u * RIG_BLOCK + RIG_LAST)
#define RIG_N_BIAS         33u
#define RIG_N_FLOATS       (RIG_N_WEIGHTS + RIG_N_BIAS)
#define RIG_N_BYTES        (RIG_N_FLOATS * sizeof(float))
#define RIG_SLOTS          4u /* Slots that hold something. */
#define RIG_FULL_SLOT      5u
#define RIG_FULL_EACH      (PS_CALL_PAYLOAD_BYTES / (RIG_BLOCK * 4u))
#define RIG_FULL_FRAGMENTS 2u
#define RIG_FULL_TABLES    (RIG_FULL_EACH + 2u)
#define RIG_EPOCH          3u
#define RIG_GENERATION     11u
#define RIG_KEY_SEED       77u
#define RIG_MSG_BYTES      (RIG_N_BYTES + PS_HEAD_BYTES_MAX)

struct rig {
    struct ps_mem mem;
    struct ps_metrics metrics;
    struct ps_inline_exec execs[PS_LANES_MAX]; /* Of lanes. */
    struct ps_inline_exec home;
    uint64_t now_ns;
    struct ps_catalogue catalogue;
    struct ps_svc_data svc;
    struct ps_method methods[PS_SVC_DATA_METHODS];
    struct ps_data_request request; /* The call being written. */
    float gradients[RIG_N_FLOATS];  /* In the order of slots: weights, bias. */
    struct ps_lane_update update;
    bool updated;
    bool late_by_default; /* Stays over rig_open: its lanes have a committer that is late. */
    bool late;            /* These lanes have. */
    bool hold;            /* Then rig_pump commits nothing; else everything. */
    struct late_commit committer;
    enum ps_slot_plant plant;  /* Stays over rig_open. */
    bool cuts;                 /* There were some: what is written while one lasts is copied. */
    uint64_t n_straddlers_max; /* Floats that lay over a slice's end; each is put together. */
};

extern struct rig rig;

/** Lanes, tables, placement, sessions; bsp with the first step open. */
void rig_open(uint32_t n_lanes);

/**
 * Define RIG_FULL_TABLES tables of one block each in slot RIG_FULL_SLOT, from table RIG_TABLES on:
 * they make up RIG_FULL_FRAGMENTS fragments, of which all but the last have RIG_FULL_EACH tables.
 */
void rig_fill_slot(void);

/**
 * Define a sparse table behind the tables there are. @return its number
 * It has first weights of its own for each key, in [-1, 1).
 */
struct rig_rows {
    const char *optim;
    uint32_t width;
    uint32_t admit_after;
    uint32_t expire_after;
    float l1;   /* Of ftrl. */
    bool zeros; /* First weights are all 0 instead. */
};
uint32_t rig_define_rows(const struct rig_rows *rows);

/** Everything must have been answered and given back. */
void rig_close(void);

/** As rig_open, with a committer that is late: see rig.hold. */
void rig_open_late(uint32_t n_lanes);

/** Commit `n` of the records that are held, and run the lanes. */
void rig_commit(uint32_t n);

/** Run all lanes until nothing is left. */
void rig_pump(void);

/** Run one of them. */
void rig_pump_lane(uint32_t lane);

/** Move the clock and run what is due. */
void rig_pass_ms(uint64_t ms);

/* ---- News ----------------------------------------------------------------------------------- */

/** A new update to fill, with the present term and generation; rig_send hands it to the lanes. */
struct ps_lane_update *rig_news(void);
enum ps_status rig_send(void);
/** Hand it over without waiting for it: `rig.updated` tells. */
void rig_post(void);
void rig_min_clock(uint64_t min_clock);
/** Sessions `first` to 4 are open, as list `version`. */
void rig_sessions(uint64_t version, uint64_t first);
/** The same; of those before `first` only `staged` (0: none) has said that it staged something. */
void rig_sessions_staged(uint64_t version, uint64_t first, uint64_t staged);
void rig_consistency(enum ps_gate_mode mode, uint32_t bound, bool aggregate);
void rig_close_step(uint64_t step, const struct ps_close_entry *entries, uint32_t n);

/* ---- Calls ---------------------------------------------------------------------------------- */

/** Start a request: session, generation, nothing asked. */
struct ps_data_request *rig_request(uint64_t session);
/** Add push parts of the slots in mask `slots`, with values from rig.gradients. */
void rig_add_push(uint64_t stream, uint64_t sequence, uint32_t slots);
/** Add pull parts of the slots in mask `slots`, for `step`. */
void rig_add_pull(uint64_t step, uint32_t slots);

/** Write the request as one flat message into `to` [RIG_MSG_BYTES]. */
size_t rig_write(uint8_t *to);

/** Deliver the request as it stands. The lanes have not run. */
struct fake_call *rig_deliver(enum ps_data_kind kind);
struct fake_call *rig_deliver_bytes(enum ps_data_kind kind, const struct ps_slice *slices,
                                    size_t n_slices);
struct fake_call *rig_deliver_to(const char *method, const struct ps_slice *slices,
                                 size_t n_slices);

/** Push all slots for a lease and run the lanes; the status of slot 0. */
enum ps_status rig_push(uint64_t session, uint64_t lease, uint64_t unit);

/** Read all weights as a reader does. `to` [RIG_N_FLOATS] */
void rig_read(float *to);

/** Values by chance, small ones. */
void rig_gradients(uint64_t seed);

#endif
