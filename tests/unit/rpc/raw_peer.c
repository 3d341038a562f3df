/* raw_peer.c — see raw_peer.h. */
#include "unit/rpc/raw_peer.h"

#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <check.h>

#include "os/clock.h"

#define WAIT_MS_MAX 20000
#define FRAME_HEAD  9u
#define FRAME_MAX   16384u

static void put_u32(uint8_t *to, uint32_t value)
{
    uint32_t big = htonl(value);
    memcpy(to, &big, sizeof(big));
}

static void send_all(const struct raw_peer *peer, const uint8_t *data, size_t n_bytes)
{
    while (n_bytes > 0) {
        ssize_t n = send(peer->fd, data, n_bytes, MSG_NOSIGNAL);
        if (n <= 0) {
            return; /* The server has had enough, as it may. */
        }
        data += n;
        n_bytes -= (size_t)n;
    }
}

void raw_send_frame(struct raw_peer *peer, uint8_t type, uint8_t flags, uint32_t stream,
                    const void *data, size_t n_bytes)
{
    uint8_t frame[FRAME_HEAD + FRAME_MAX];
    ck_assert_uint_le(n_bytes, FRAME_MAX);
    put_u32(frame, (uint32_t)n_bytes << 8);
    frame[3] = type;
    frame[4] = flags;
    put_u32(frame + 5, stream);
    if (n_bytes > 0) {
        memcpy(frame + FRAME_HEAD, data, n_bytes);
    }
    send_all(peer, frame, FRAME_HEAD + n_bytes);
}

void raw_open(struct raw_peer *peer, const char *address, uint32_t window)
{
    static const char greeting[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct sockaddr_in name = {.sin_family = AF_INET};
    memset(peer, 0, sizeof(*peer));
    const char *colon = strrchr(address, ':');
    ck_assert_ptr_nonnull(colon);
    name.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(peer->fd, (const struct sockaddr *)&name, sizeof(name)), 0);
    send_all(peer, (const uint8_t *)greeting, sizeof(greeting) - 1);
    uint8_t setting[6] = {0, 4}; /* SETTINGS_INITIAL_WINDOW_SIZE */
    put_u32(setting + 2, window);
    raw_send_frame(peer, RAW_SETTINGS, 0, 0, setting, sizeof(setting));
    uint8_t more[4];
    put_u32(more, 1u << 30); /* For the connection as a whole. */
    raw_send_frame(peer, RAW_WINDOW_UPDATE, 0, 0, more, sizeof(more));
}

void raw_close(struct raw_peer *peer)
{
    (void)close(peer->fd);
}

/* A literal without indexing, name and value shorter than 127 bytes. */
static size_t put_header(uint8_t *to, const char *name, const char *value)
{
    size_t n_name = strlen(name);
    size_t n_value = strlen(value);
    to[0] = 0;
    to[1] = (uint8_t)n_name;
    memcpy(to + 2, name, n_name);
    to[2 + n_name] = (uint8_t)n_value;
    memcpy(to + 3 + n_name, value, n_value);
    return 3 + n_name + n_value;
}

void raw_call(struct raw_peer *peer, uint32_t stream, const char *path, const char *encoding)
{
    uint8_t block[512];
    size_t n = put_header(block, ":method", "POST");
    n += put_header(block + n, ":scheme", "http");
    n += put_header(block + n, ":path", path);
    n += put_header(block + n, ":authority", "test");
    n += put_header(block + n, "te", "trailers");
    n += put_header(block + n, "content-type", "application/grpc");
    if (encoding != NULL) {
        n += put_header(block + n, "grpc-encoding", encoding);
    }
    raw_send_frame(peer, RAW_HEADERS, RAW_END_HEADERS, stream, block, n);
}

void raw_message(struct raw_peer *peer, uint32_t stream, uint8_t compressed, const void *data,
                 size_t n_bytes, bool last)
{
    uint8_t head[5] = {compressed};
    put_u32(head + 1, (uint32_t)n_bytes);
    raw_send_frame(peer, RAW_DATA, 0, stream, head, sizeof(head));
    const uint8_t *at = data;
    do {
        size_t n = n_bytes < FRAME_MAX ? n_bytes : FRAME_MAX;
        n_bytes -= n;
        raw_send_frame(peer, RAW_DATA, last && n_bytes == 0 ? RAW_END_STREAM : 0, stream, at, n);
        at += n;
    } while (n_bytes > 0);
}

/* Count one frame if it is whole; @return its bytes, 0: more must come. */
static size_t take_frame(struct raw_peer *peer, const uint8_t *at, size_t n_left)
{
    if (n_left < FRAME_HEAD) {
        return 0;
    }
    size_t n_bytes = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
    ck_assert_uint_le(n_bytes, FRAME_MAX);
    if (n_left < FRAME_HEAD + n_bytes) {
        return 0;
    }
    uint8_t type = at[3];
    bool ended = (type == RAW_DATA || type == RAW_HEADERS) && (at[4] & RAW_END_STREAM) != 0;
    peer->n_frames[type & 15u]++;
    if (type == RAW_PING && (at[4] & RAW_ACK) == 0 && !peer->answers_no_ping) {
        raw_send_frame(peer, RAW_PING, RAW_ACK, 0, at + FRAME_HEAD, n_bytes);
    }
    peer->n_data_bytes += type == RAW_DATA ? n_bytes : 0;
    peer->n_ended += ended ? 1 : 0; /* A reset that follows says nothing new. */
    return FRAME_HEAD + n_bytes;
}

static void read_some(struct raw_peer *peer)
{
    struct pollfd ready = {.fd = peer->fd, .events = POLLIN};
    if (poll(&ready, 1, 50) <= 0) {
        return;
    }
    ssize_t n = recv(peer->fd, peer->input + peer->n_input, sizeof(peer->input) - peer->n_input, 0);
    if (n <= 0) {
        peer->closed = true;
        return;
    }
    peer->n_input += (size_t)n;
    size_t at = 0;
    for (;;) {
        size_t n_taken = take_frame(peer, peer->input + at, peer->n_input - at);
        if (n_taken == 0) {
            break;
        }
        at += n_taken;
    }
    peer->n_input -= at;
    memmove(peer->input, peer->input + at, peer->n_input);
}

bool raw_read_until(struct raw_peer *peer, const uint32_t *counter, uint32_t n)
{
    uint64_t until_ms = ps_clock_ms() + WAIT_MS_MAX;
    while (*counter < n && !peer->closed && ps_clock_ms() < until_ms) {
        read_some(peer);
    }
    return *counter >= n;
}

bool raw_read_to_end(struct raw_peer *peer)
{
    uint64_t until_ms = ps_clock_ms() + WAIT_MS_MAX;
    while (!peer->closed && ps_clock_ms() < until_ms) {
        read_some(peer);
    }
    return peer->closed;
}
