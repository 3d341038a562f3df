#ifndef PS_TESTS_UNIT_RPC_RIG_H
#define PS_TESTS_UNIT_RPC_RIG_H
/*
 * unit/rpc/rig.h — a transport of some kind, a server on it, and waiting without sleeping.
 *
 * The server's methods: Echo answers what it got, borrowing it; Status answers the status in the
 * first byte with the rest as reason; Later the same with a wish for the next try; Context answers
 * its struct ps_context; Park keeps the call for the test; Nobody admits no role; Chat echoes a
 * stream; Hold keeps a stream for the test, and so does Listen, which is a server stream.
 */
#include <stdatomic.h>
#include <stdbool.h>

#include <pthread.h>

#include "os/clock.h"
#include "port/direct.h"
#include "rpc/rpc.h"

enum rig_kind {
    RIG_DIRECT,
    RIG_TCP,
    RIG_UNIX,
    RIG_KIND_COUNT
};

#define RIG_PARKED_MAX 64

struct rig {
    enum rig_kind kind;
    struct ps_transport *transport;
    struct ps_rpc *rpc;
    struct ps_inline_exec exec;
    struct ps_direct *direct;
    struct ps_listener *listener;
    struct ps_channel *channel;
    char address[256];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ps_call *parked[RIG_PARKED_MAX];
    int n_parked;
    struct ps_stream *held; /* By Hold. */
    int n_chats_closed;
    enum ps_status chat_status;
};

/** Transport only; `options` NULL: defaults. */
void rig_open(struct rig *rig, enum rig_kind kind, const struct ps_rpc_options *options);
void rig_listen(struct rig *rig);
void rig_dial(struct rig *rig, enum ps_traffic traffic);
/** All of the above. */
void rig_start(struct rig *rig, enum rig_kind kind);
void rig_unlisten(struct rig *rig);
void rig_undial(struct rig *rig);
void rig_close(struct rig *rig);

#define RIG_LONG_BYTES (2u * PS_CONTROL_BYTES_MAX) /* What Long takes. */

extern const struct ps_method rig_methods[];
extern const size_t rig_n_methods;
/** The rig that the methods serve; one at a time. */
extern struct rig *rig_served;

/** Let time pass until `*flag` (under the lock) is at least `n`; fails the test after 20 s. */
void rig_wait(struct rig *rig, const int *flag, int n);
/** Add one to `*flag` and wake who waits. */
void rig_add(struct rig *rig, int *flag);

/** One request and what became of it. */
struct ask {
    struct ps_request request;
    struct rig *rig;
    int n_done;
};

/** Start; `request.out`, `timeout_ms` (0: 10 s) and context may be set before. */
void ask_start(struct ask *ask, struct rig *rig, const char *method);
/** Start and wait. */
enum ps_status ask_run(struct ask *ask, struct rig *rig, const char *method);
void ask_free(struct ask *ask);

/** The reply equals these bytes. */
bool msg_equals(const struct ps_msg *msg, const uint8_t *data, size_t n_bytes);

/** A stream of the client side that counts. */
struct talk {
    struct rig *rig;
    struct ps_stream *stream;
    int n_messages;
    int n_closed;
    int n_drained;
    int n_wrong; /* Messages out of order: each begins with its number. */
    enum ps_status status;
    bool counts_numbers;
};

void talk_open(struct talk *talk, struct rig *rig, const char *method);
extern const struct ps_stream_events talk_events;

#endif
