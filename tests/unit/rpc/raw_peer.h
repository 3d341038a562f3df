#ifndef PS_TESTS_UNIT_RPC_RAW_PEER_H
#define PS_TESTS_UNIT_RPC_RAW_PEER_H
/*
 * unit/rpc/raw_peer.h — a client that speaks HTTP/2 by hand and as badly as the test wants: no flow
 * control, headers without a body, no answers to pings when it is told so or does not read. Source:
 * RFC 9113, RFC 7541.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum raw_frame {
    RAW_DATA = 0,
    RAW_HEADERS = 1,
    RAW_RST_STREAM = 3,
    RAW_SETTINGS = 4,
    RAW_PING = 6,
    RAW_GOAWAY = 7,
    RAW_WINDOW_UPDATE = 8
};

#define RAW_END_STREAM  1u
#define RAW_ACK         1u
#define RAW_END_HEADERS 4u

/** What has been read from the server. */
struct raw_peer {
    int fd;
    bool answers_no_ping;
    bool closed;           /* The server has ended the connection. */
    uint32_t n_frames[16]; /* By type. */
    uint32_t n_ended;      /* Streams that the server has ended, in whatever way. */
    size_t n_data_bytes;
    uint8_t input[32768]; /* A frame that is not whole. */
    size_t n_input;
};

/** Connect to "127.0.0.1:port" and greet. `window`: what the server may send on each stream. */
void raw_open(struct raw_peer *peer, const char *address, uint32_t window);
void raw_close(struct raw_peer *peer);

void raw_send_frame(struct raw_peer *peer, uint8_t type, uint8_t flags, uint32_t stream,
                    const void *data, size_t n_bytes);
/** Begin a call of `path` without a deadline; `encoding` NULL: none is named. */
void raw_call(struct raw_peer *peer, uint32_t stream, const char *path, const char *encoding);
/** A gRPC message as DATA frames, and the end of the client's side if `last`. */
void raw_message(struct raw_peer *peer, uint32_t stream, uint8_t compressed, const void *data,
                 size_t n_bytes, bool last);

/** Read what comes until `*counter` is at least `n`; false after 20 s or when the server left. */
bool raw_read_until(struct raw_peer *peer, const uint32_t *counter, uint32_t n);
/** Read until the server has closed; false after 20 s. */
bool raw_read_to_end(struct raw_peer *peer);

#endif
