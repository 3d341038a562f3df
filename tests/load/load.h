#ifndef PS_TESTS_LOAD_LOAD_H
#define PS_TESTS_LOAD_LOAD_H
/*
 * load/load.h — many sessions in one process that push or pull one table as fast as they may.
 *
 * Written on the transport and the messages alone, so that it sees what a client library hides: it
 * knows of every refusal, whether it came with a time to wait, and keeps to that time.
 */
#include <stdbool.h>
#include <stdint.h>

#include <pthread.h>

#include "base/error.h"
#include "base/id.h"
#include "cluster/layout.h"
#include "coordinator.pb-c.h"
#include "port/transport.h"
#include "wire/data_msg.h"

#define LOAD_SESSIONS_MAX 64u /* Times their depth. */

/** One blocking call after the other; a thread's. */
struct load_caller {
    struct ps_request request;
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done;
};

struct load_table {
    uint32_t number;
    struct ps_layout layout;
    uint64_t epoch[PS_SLOTS];
};

enum load_mode {
    LOAD_PUSH, /* Each push adds 1 to the session's own element. */
    LOAD_PULL,
    LOAD_READ /* Pull once and print the first elements. */
};

struct load_options {
    const char *coordinator;
    uint32_t mode;
    uint32_t sessions;
    uint32_t depth; /* Threads, so calls at a time, of each; for pulls. */
    uint32_t first; /* Own element of the first session. */
    uint64_t elements;
    uint64_t time_ms;
    uint32_t shown;    /* READ: elements to print. */
    const char *start; /* Wait until this file is there; NULL: start at once. */
};

struct load_session {
    const struct load_options *options;
    struct ps_transport *transport;
    uint32_t index;
    struct load_caller caller;
    struct ps_channel *control;
    struct ps_channel *data;
    struct ps_id id;
    uint64_t number;
    uint64_t generation;
    struct load_table table;
    struct ps_data_request *request;
    struct ps_data_reply *reply;
    uint8_t *head;
    float *own;   /* [block] Zeros, and -1 at the own element. */
    float *zeros; /* [block] */
    uint64_t ticked_ms;
    /* What it has seen. */
    uint64_t n_acked; /* Units: the whole table. */
    uint64_t n_calls;
    uint64_t n_busy;
    uint64_t n_without_hint; /* Of these. */
    uint64_t n_failed;       /* Calls without an answer; repeated. */
    uint64_t wait_ms_max;
    struct ps_error err; /* Why it ended early. */
};

/** Milliseconds of this machine, for measuring. */
uint64_t load_now_ms(void);
void load_wait_ms(uint64_t ms);

void load_caller_init(struct load_caller *caller);
/** Call and wait; the reply is the caller's to unref. */
enum ps_status load_call(struct load_caller *caller, struct ps_channel *channel, const char *method,
                         const struct ps_out *out, uint32_t timeout_ms);

/** Join, define or find the table. */
enum ps_status load_open(struct load_session *session);
/** One more thread of a session that is open. */
void load_share(struct load_session *session, const struct load_session *leader);
void load_close(struct load_session *session);
/** A sign of life, if it is time. PS_ERR_FENCED: the session is over. */
enum ps_status load_tick(struct load_session *session);

/** Push a unit, or pull the table, in calls of one fragment of each slot. */
enum ps_status load_unit(struct load_session *session, uint64_t sequence);

#endif
