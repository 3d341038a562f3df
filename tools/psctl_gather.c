/* psctl_gather.c — see psctl_gather.h. */
#include "psctl_gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/attr.h"
#include "os/posix_disk.h"
#include "psctl_words.h"
#include "replica.pb-c.h"
#include "snap/gather.h"
#include "svc/svc_part.h"
#include "wire/pack.h"

#define PIECE_TIMEOUT_MS 60000u /* A mebibyte, from a disk that also writes snapshots. */
#define PIECE_TRIES      5u     /* Of one that a busy server has refused for now. */

struct gatherer {
    struct ps_transport *transport;
    struct ps_loop *loop;
    const struct psctl_options *options;
    const Ps__V1__DescribeReply *describe;
    struct ps_channel *channel; /* To `address`. */
    char address[PS_ADDRESS_BYTES_MAX + 1];
    struct ps_request request;
    struct ps_mail done;
    bool asking; /* Until `done` has run. */
};

/* ---- One call -------------------------------------------------------------------------------- */

static void stop_loop(struct ps_mail *mail)
{
    struct gatherer *g = PS_CONTAINER_OF(mail, struct gatherer, done);
    g->asking = false;
    ps_loop_stop(g->loop);
}

/* On a thread of the transport. */
static void request_done(struct ps_request *request)
{
    struct gatherer *g = PS_CONTAINER_OF(request, struct gatherer, request);
    ps_exec_post(ps_loop_port(g->loop), &g->done);
}

static enum ps_status connect_to(struct gatherer *g, const char *address, struct ps_error *err)
{
    if (g->channel != NULL && strcmp(g->address, address) == 0) {
        return PS_OK;
    }
    if (g->channel != NULL) {
        ps_channel_close(g->channel);
        g->channel = NULL;
    }
    (void)snprintf(g->address, sizeof(g->address), "%s", address);
    static const struct ps_creds insecure = {.kind = PS_CREDS_INSECURE};
    return ps_channel_open(g->transport, address, PS_TRAFFIC_DATA, &insecure, &g->channel, err);
}

/* Where the server is now; where MANIFEST says that it was, if the cluster does not know it. */
static const char *address_of(const struct gatherer *g, const struct ps_gather_piece *piece)
{
    const Ps__V1__Placement *placement = g->describe->placement;
    if (piece->address[0] == '\0') {
        return g->options->coordinator;
    }
    for (size_t i = 0; placement != NULL && i < placement->n_servers; i++) {
        if (placement->servers[i]->index == piece->server &&
            placement->servers[i]->address[0] != '\0') {
            return placement->servers[i]->address;
        }
    }
    return piece->address;
}

static enum ps_status read_reply(struct gatherer *g, uint8_t *to, size_t *ret_n_bytes,
                                 struct ps_error *err)
{
    const struct ps_msg *msg = g->request.reply;
    Ps__V1__ReadPartReply *reply = (Ps__V1__ReadPartReply *)ps_wire_unpack(
        &ps__v1__read_part_reply__descriptor, msg->slices, msg->n_slices, NULL);
    if (reply == NULL || reply->data.len > PS_SNAP_CHUNK_BYTES) {
        ps_wire_unpacked_free((ProtobufCMessage *)reply);
        return ps_fail(err, PS_ERR_CORRUPT, "server %.100s: its answer cannot be read", g->address);
    }
    if (reply->data.len > 0) {
        memcpy(to, reply->data.data, reply->data.len);
    }
    *ret_n_bytes = reply->data.len;
    ps_wire_unpacked_free((ProtobufCMessage *)reply);
    return PS_OK;
}

static enum ps_status ask_once(struct gatherer *g, const struct ps_slice *asked, uint8_t *to,
                               size_t *ret_n_bytes, struct ps_error *err)
{
    g->request = (struct ps_request){
        .method = PS_METHOD_READ_PART,
        .timeout_ms = PIECE_TIMEOUT_MS,
        .at_once = true,
        .out = {.head = asked->data, .n_head_bytes = asked->n_bytes},
        .done = request_done,
    };
    g->done.run = stop_loop;
    g->asking = true;
    ps_request_start(g->channel, &g->request);
    while (g->asking) {
        ps_loop_run(g->loop);
    }
    if (g->request.err.status != PS_OK) {
        return ps_fail(err, g->request.err.status, "server %.100s: %.140s", g->address,
                       g->request.err.text);
    }
    enum ps_status status = read_reply(g, to, ret_n_bytes, err);
    ps_msg_unref(g->request.reply);
    return status;
}

static enum ps_status fetch(void *arg, const struct ps_gather_piece *piece, uint8_t *to,
                            size_t *ret_n_bytes, struct ps_error *err)
{
    static const Ps__V1__PartFile kinds[] = {
        [PS_GATHER_MANIFEST] = PS__V1__PART_FILE__CUT_MANIFEST,
        [PS_GATHER_JOB] = PS__V1__PART_FILE__CUT_JOB,
        [PS_GATHER_PART] = PS__V1__PART_FILE__PART_INDEX,
        [PS_GATHER_DATA] = PS__V1__PART_FILE__PART_DATA,
    };
    struct gatherer *g = arg;
    uint8_t bytes[128];
    bool fits = false;
    Ps__V1__ReadPartRequest request = PS__V1__READ_PART_REQUEST__INIT;
    request.generation = piece->generation;
    request.cut = piece->cut;
    request.server = piece->server;
    request.file = kinds[piece->file];
    request.number = piece->number;
    request.offset = piece->offset;
    size_t n = ps_wire_pack(&request.base, bytes, sizeof(bytes), &fits);
    struct ps_slice asked = {.data = bytes, .n_bytes = n};
    enum ps_status status = connect_to(g, address_of(g, piece), err);
    if (status != PS_OK) {
        return status;
    }
    status = PS_ERR_BUSY;
    for (uint32_t i = 0; status == PS_ERR_BUSY && i < PIECE_TRIES; i++) {
        status = ask_once(g, &asked, to, ret_n_bytes, err);
    }
    return status;
}

/* ---- The command ----------------------------------------------------------------------------- */

static const Ps__V1__Cut *wanted(const struct psctl_options *options,
                                 const Ps__V1__DescribeReply *describe, struct ps_error *err)
{
    for (size_t i = 0; i < describe->n_cuts; i++) {
        if (options->cut == NULL || strcmp(describe->cuts[i]->name, options->cut) == 0) {
            return describe->cuts[i];
        }
    }
    if (options->cut != NULL) {
        (void)ps_fail(err, PS_ERR_NOT_FOUND,
                      "there is no snapshot %.60s: psctl snapshot --list shows which there are",
                      options->cut);
    } else {
        (void)ps_fail(err, PS_ERR_NOT_FOUND, "there is no snapshot: psctl snapshot takes one");
    }
    return NULL;
}

enum ps_status psctl_gather(struct ps_transport *transport, struct ps_loop *loop,
                            const struct psctl_options *options,
                            const Ps__V1__DescribeReply *describe, struct ps_error *err)
{
    const Ps__V1__Cut *cut = wanted(options, describe, err);
    if (cut == NULL) {
        return PS_ERR_NOT_FOUND;
    }
    struct gatherer g = {
        .transport = transport, .loop = loop, .options = options, .describe = describe};
    struct ps_gather gather = {.disk = ps_posix_disk(),
                               .dir = options->gather,
                               .generation = cut->generation,
                               .cut = cut->cut,
                               .fetch = fetch,
                               .arg = &g};
    enum ps_status status = ps_snap_gather(&gather, err);
    if (g.channel != NULL) {
        ps_channel_close(g.channel);
    }
    if (status == PS_OK && options->json) {
        (void)printf("{\"snapshot\":\"%06" PRIu64 "-%010" PRIu64 "\",\"bytes\":%" PRIu64 "}\n",
                     cut->generation, cut->cut, gather.n_bytes);
    } else if (status == PS_OK) {
        (void)printf("snapshot %06" PRIu64 "-%010" PRIu64 " gathered in %s: %.1f MB\n",
                     cut->generation, cut->cut, options->gather, (double)gather.n_bytes / 1e6);
    }
    return status;
}
