#ifndef PS_TESTS_LOAD_LEDGER_H
#define PS_TESTS_LOAD_LEDGER_H
/*
 * load/ledger.h — pushes of which each leaves a mark of its own, and a history of what was asked
 * and what was answered.
 *
 *   table          a push adds                                 so that
 *   ledger         1 to rows of a sparse table that no other   one lost or doubled shows by name
 *                  push has
 *   shadow         1 to the same keys, by adagrad              rows and their state go together
 *   zero.0 to .7   x to one number of one of them, -x to       it sums to 0 whenever it is seen
 *                  another
 *   counter        some integers to a few hot numbers          each read has bounds
 *   bulk.0 ...     0, to --bulk numbers                        records and tables are large
 *
 * A push whose outcome is not known ("info") may count or not; the session that it was of is given
 * up then, and its sequence is never used under another one.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <pthread.h>

#include <ps/client.h>

#include "base/rng.h"

#define LEDGER_CLIENTS_MAX 32u
#define LEDGER_DEPTH_MAX   16u
#define LEDGER_ROWS_MAX    16u
#define LEDGER_BULKS_MAX   128u
#define LEDGER_ZEROS       8u  /* Tables whose numbers sum to 0, */
#define LEDGER_ZERO_FLOATS 64u /*   of so many each. */
#define LEDGER_COUNTERS    16u
#define LEDGER_WIDTH       2u /* Of a row: 1, and twice as much. */

struct ledger_options {
    const char *coordinator;
    const char *history;
    uint32_t mode;
    uint32_t clients;
    uint32_t first; /* Number of the first client: keys are a function of it. */
    uint32_t depth;
    uint32_t rows;
    uint32_t read_one_in;
    uint32_t bulk;        /* Numbers of a table; 0: there are none. */
    uint32_t bulk_tables; /* A push has one of them. */
    uint64_t time_ms;
    uint64_t interval_ms;
    uint64_t give_up_ms;
    uint64_t ops; /* Per client; 0: until the time is over. */
};

/** JSON lines, one event each; each is written to the file before the next thing happens. */
struct ledger_history {
    FILE *file;
    pthread_mutex_t lock;
};

/** The tables, as a client knows them. */
struct ledger_tables {
    struct ps_table ledger;
    struct ps_table shadow;
    struct ps_table zero[LEDGER_ZEROS];
    struct ps_table counter;
    struct ps_table bulk[LEDGER_BULKS_MAX];
};

/** One push under way. */
struct ledger_op {
    bool busy;
    uint64_t number; /* Of the client, never used twice. */
    uint64_t keys[LEDGER_ROWS_MAX];
    float rows[LEDGER_ROWS_MAX * LEDGER_WIDTH];
    float shadows[LEDGER_ROWS_MAX];
    float zero[LEDGER_ZERO_FLOATS];
    float counter[LEDGER_COUNTERS];
    struct ps_tensor tensors[3];
    struct ps_keyed keyed[2];
    struct ps_push push;
};

struct ledger_client {
    const struct ledger_options *options;
    struct ledger_history *history;
    uint32_t index;
    struct ps_rng rng;
    struct ps_client *client;
    struct ledger_tables tables;
    uint64_t n_ops; /* So the number of the next one. */
    uint64_t sequence;
    float *zeros; /* [bulk] */
    struct ledger_op ops[LEDGER_DEPTH_MAX];
    uint32_t oldest; /* Of the ops under way, which stand in a ring; */
    uint32_t n_busy; /*   so many. */
    /* Figures. */
    uint64_t n_ok;
    uint64_t n_info;
    uint64_t n_reads;
    uint64_t n_sessions;
    const char *stopped; /* Why it went no further; NULL: its time was over. */
    pthread_t thread;
};

/** Nanoseconds that all processes of this machine share. */
uint64_t ledger_now_ns(void);
/** Somebody asked for the end. */
bool ledger_stopping(void);
/** Wait, at most so long; less when the end is asked for. */
void ledger_pause(uint64_t ms);

PS_MUST_CHECK bool ledger_history_open(struct ledger_history *history, const char *path);
void ledger_history_close(struct ledger_history *history);
/** One event: `text` is what follows time and client in the JSON object. */
__attribute__((format(printf, 3, 4))) void ledger_say(struct ledger_history *history,
                                                      uint32_t client, const char *text, ...);

/** Open a session and find or define the tables. */
PS_MUST_CHECK enum ps_status ledger_open(struct ledger_client *client, enum ps_client_kind kind,
                                         struct ps_error *err);
/** Start the next push. */
PS_MUST_CHECK enum ps_status ledger_push_start(struct ledger_client *client, struct ps_error *err);
/** Wait for the oldest push under way. */
PS_MUST_CHECK enum ps_status ledger_push_wait(struct ledger_client *client, struct ps_error *err);
/** Pull some rows that were acknowledged, and all other tables. */
PS_MUST_CHECK enum ps_status ledger_read(struct ledger_client *client, struct ps_error *err);
/** Everything that is there, once. */
PS_MUST_CHECK enum ps_status ledger_read_all(struct ledger_client *client, struct ps_error *err);

#endif
