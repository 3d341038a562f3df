#ifndef PS_TESTS_UNIT_CLIENT_FAKE_TRANSPORT_H
#define PS_TESTS_UNIT_CLIENT_FAKE_TRANSPORT_H
/*
 * client/fake_transport.h — a network whose every loss and delay is written in the test.
 *
 * One thread, one inline executor, virtual time. Each request becomes a struct fake_call, flat, and
 * is shown to the test's handler; what is not answered ends with TIMEOUT at its deadline. Borrowed
 * pieces are let go when the request is over, so a client that ended early would be caught reading
 * or lending what is not there.
 */
#include "port/inline_exec.h"
#include "port/transport.h"

#define FAKE_CALLS_MAX 256u

struct fake_transport;

struct fake_call {
    bool used;
    struct fake_transport *transport;
    struct ps_request *request;
    char address[PS_ADDRESS_BYTES_MAX + 1];
    struct ps_msg *msg; /* What was sent. */
    struct ps_mail deliver;
    struct ps_mail answer;
    struct ps_timer deadline;
    struct ps_piece *pieces;
    size_t n_pieces;
    struct ps_msg *reply;
    struct ps_error err;
    bool answered;
};

struct fake_stream {
    struct ps_stream base;
    struct fake_transport *transport;
    const struct ps_stream_events *events;
    void *arg;
    struct ps_mail closed;
    bool open;   /* From the client's side: `closed` has not been delivered. */
    bool broken; /* `closed` is on its way. */
    enum ps_status status;
};

struct fake_transport {
    struct ps_transport base;
    struct ps_exec *port; /* Where all of it runs: `exec`, unless the test has another. */
    struct ps_inline_exec exec;
    uint64_t now_ns;
    struct fake_call calls[FAKE_CALLS_MAX];
    struct fake_stream stream; /* At most one at a time. */
    uint32_t n_channels;
    uint32_t n_calls; /* Ever. */
    uint32_t n_in_flight;
    uint32_t n_in_flight_max;
    uint32_t n_streams; /* Ever. */
    bool refuse_streams;
    bool stream_busy;
    /** A request has arrived: answer now, later or never. */
    void (*handle)(void *arg, struct fake_call *call);
    /** Something came up the stream; `msg` is borrowed. */
    void (*heard)(void *arg, const struct ps_msg *msg);
    /** A stream was opened. */
    void (*opened)(void *arg);
    void *arg;
};

void fake_transport_init(struct fake_transport *fake);
/** Everything must be closed. */
void fake_transport_deinit(struct fake_transport *fake);

/** Let `ms` of virtual time pass. */
void fake_run(struct fake_transport *fake, uint32_t ms);

/** Answer with a flat message, or with an error (`data` NULL). */
void fake_answer(struct fake_call *call, enum ps_status status, const uint8_t *data,
                 size_t n_bytes);

/** Send down the stream; nothing when it is not open. */
void fake_stream_send(struct fake_transport *fake, const uint8_t *data, size_t n_bytes);
void fake_stream_break(struct fake_transport *fake, enum ps_status status);

#endif
