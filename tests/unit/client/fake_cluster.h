#ifndef PS_TESTS_UNIT_CLIENT_FAKE_CLUSTER_H
#define PS_TESTS_UNIT_CLIENT_FAKE_CLUSTER_H
/*
 * client/fake_cluster.h — a coordinator and servers in a few lines, over the fake transport.
 *
 * They answer correctly (exactly once by stream and sequence, weights minus gradients, a gate)
 * unless the test's two hooks say otherwise: `fate` of a whole call, `judge` of one slot.
 */
#include "cluster/layout.h"
#include "fake_transport.h"
#include "wire/data_msg.h"

#define FAKE_TABLES_MAX  4u
#define FAKE_ROWS_MAX    4096u
#define FAKE_WIDTH_MAX   4u
#define FAKE_APPLIED_MAX 4096u
#define FAKE_SEEN_MAX    4096u

#define FAKE_ADDRESS_BYTES 32

enum fake_fate {
    FATE_ANSWER,
    FATE_LOSE_REQUEST, /* Never arrives. */
    FATE_LOSE_REPLY,   /* Done, but nobody hears of it. */
    FATE_REFUSE,       /* With `refusal`. */
    FATE_HOLD,         /* Kept in `held`. */
    FATE_NONSENSE,     /* An answer about slots that were not asked for. */
    FATE_NOTHING       /* An answer that does not mention a slot. */
};

/** What is wrong with every answer to a scan. */
enum fake_scan_lie {
    SCAN_TRUE,
    SCAN_OTHER_SLOT, /* Keys of another slot. */
    SCAN_TOO_MANY,   /* More rows than were asked for. */
    SCAN_STANDS,     /* It does not go on. */
    SCAN_SHORT,      /* Fewer values than keys. */
    SCAN_DOUBLED,    /* A key twice: bytes that are no keys. */
    SCAN_LIES
};
#define FAKE_SCAN_STEP 2u /* Rows that one call brings at most. */

/** One slot of one data call, as it arrived. */
struct fake_seen {
    uint32_t call; /* Number of the data call. */
    uint32_t server;
    bool push;
    uint64_t stream;
    uint64_t sequence;
    struct ps_slot_part slot;
};

struct fake_applied {
    uint64_t stream;
    uint64_t sequence;
    uint32_t slot;
    uint32_t fragment;
};

/** A row of a sparse table. */
struct fake_row {
    uint32_t table;
    uint64_t key;
    float values[FAKE_WIDTH_MAX];
};

struct fake_cluster {
    struct fake_transport net;
    uint32_t n_servers;
    uint64_t placement_version; /* Preset 0: as of one who counts none. */
    char addresses[PS_SERVERS_MAX]
                  [FAKE_ADDRESS_BYTES]; /* "server-<index>:..."; nobody elsewhere. */
    uint32_t primary[PS_SLOTS];
    uint64_t epoch[PS_SLOTS];
    uint64_t position[PS_SLOTS];
    int protocol_off;   /* From the right protocol, in answers to Join. */
    uint64_t shape_off; /* A lie about every table, as what follows. */
    uint32_t number_off;
    uint32_t n_undescribed; /* The last tables, that Describe is silent about. */
    char first_letter;      /* Of each name; 0: the right one. */
    uint64_t term;
    uint64_t generation;
    uint64_t min_clock;
    uint64_t hold;            /* A cut, in every state. */
    uint32_t patience_ms;     /* As Join says, */
    uint32_t patience_now_ms; /*   and as states do. */
    uint32_t bound;
    uint32_t mode; /* As ConsistencyMode. */
    bool aggregate;
    bool silent; /* The coordinator answers nothing. */
    bool gated;  /* Pulls wait for min clock. */

    struct ps_layout layouts[FAKE_TABLES_MAX];
    char names[FAKE_TABLES_MAX][PS_NAME_BYTES_MAX + 1];
    uint64_t shapes[FAKE_TABLES_MAX];
    uint32_t widths[FAKE_TABLES_MAX]; /* 0: a dense table. */
    float *weights[FAKE_TABLES_MAX];
    struct fake_row rows[FAKE_ROWS_MAX]; /* Of all sparse tables. */
    uint32_t n_rows;
    uint32_t n_tables;

    struct fake_applied applied[FAKE_APPLIED_MAX];
    uint32_t n_applied;
    uint32_t n_repeats;
    struct fake_seen seen[FAKE_SEEN_MAX];
    uint32_t n_seen;
    uint32_t n_data_calls;
    uint32_t n_push_calls;
    uint32_t n_pull_calls;
    uint32_t n_both_calls;
    uint32_t n_scan_calls;
    enum fake_scan_lie scan_lie;
    uint32_t n_joins;
    uint32_t n_leaves;
    struct fake_call *held[FAKE_CALLS_MAX];
    uint32_t n_held;

    uint32_t n_hellos; /* Reports without a worker's part. */
    uint32_t n_reports;
    uint64_t last_clock;
    uint64_t last_lease;
    uint32_t last_units_done;
    bool last_lease_over;
    uint64_t last_lease_rows;
    uint64_t last_held;
    uint64_t last_term;
    uint64_t last_staged_step; /* And of it: */
    uint32_t last_staged_rows;
    uint32_t last_loss_epoch;
    double last_loss_sum;
    uint64_t last_loss_rows;
    struct ps_worker_stats last_stats;

    bool unleased;      /* As the last Join said. */
    char optimizer[16]; /* As the last DefineTable said, */
    float beta1;        /*   with its numbers. */
    float beta2;
    float epsilon;
    uint32_t job_mode;  /* Consistency, as the last DefineJob said, */
    uint32_t job_parts; /*   with so many parts */
    size_t setup_bytes; /*   and so long a setup. */
    char shutdown_reason[64];
    uint32_t n_shutdowns;

    enum ps_status refusal;
    uint32_t retry_ms;
    enum fake_fate (*fate)(struct fake_cluster *cluster, uint32_t server);
    enum ps_status (*judge)(struct fake_cluster *cluster, uint32_t server, uint32_t slot,
                            bool push);
    uint64_t counter; /* The test's. */
};

#define FAKE_KEY_SEED 31u /* As Join says. */

/** The row of a key, made if there is none: zeros. */
struct fake_row *fake_row(struct fake_cluster *cluster, uint32_t table, uint64_t key);

/** Servers 0 .. n-1, slots round-robin, epoch 1, term 1. */
struct fake_cluster *fake_cluster_create(uint32_t n_servers);
void fake_cluster_destroy(struct fake_cluster *cluster);

/** A one-dimensional table of zeros, as if another client had defined it. Its number. */
uint32_t fake_table(struct fake_cluster *cluster, const char *name, uint64_t n);

/** Answer a call that was held. */
void fake_release(struct fake_cluster *cluster, uint32_t index);

/** Send the state down the stream; `whole` with placement, catalogue and consistency. */
void fake_state(struct fake_cluster *cluster, bool whole);

/** A state with a lease (id 0: none), job and fence. */
struct fake_lease {
    uint64_t id;
    uint32_t n_units;
    uint32_t units_done;
    uint64_t clock;
    uint32_t epoch;
    uint64_t first_row;
    uint32_t unit_rows;
    uint64_t stride;
    uint32_t part;
    int job;
    bool fenced;
    uint8_t cluster; /* With fenced: first byte of the coordinator's cluster id; 0: not said. */
    const char *reason;
};
void fake_state_lease(struct fake_cluster *cluster, const struct fake_lease *lease);

#endif
