/* coord_join.c — the call Join: who may come in, and what it is told. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coord/coord_impl.h"

static void answer_join(struct coord_call *call)
{
    struct ps_coord *coord = call->coord;
    const struct ps_coord_member *member = &coord->core.members[call->member];
    if (!ps_coord_core_open(&coord->core, call->member)) {
        if (!call->late) {
            return;
        }
        char reason[96];
        (void)snprintf(reason, sizeof(reason),
                       "waiting for the servers: %" PRIu32 " of %" PRIu32 " have joined",
                       ps_coord_core_servers(&coord->core), coord->options.n_servers);
        coord_call_fail(call, PS_ERR_TIMEOUT, reason);
        return;
    }
    Ps__V1__JoinReply reply = PS__V1__JOIN_REPLY__INIT;
    reply.protocol = PS_PROTOCOL_MAX;
    reply.cluster_id = coord_bytes(coord->cluster_id.bytes, sizeof(coord->cluster_id.bytes));
    reply.session_number = member->number;
    reply.term = coord->term;
    reply.generation = coord->core.generation;
    reply.server_index = member->server;
    reply.key_seed = coord->key_seed;
    reply.patience_ms = coord_patience_ms(coord);
    coord_call_reply(call, &reply.base);
}

static enum ps_status check_cluster(const struct ps_coord *coord, const ProtobufCBinaryData *asked,
                                    struct ps_error *err)
{
    struct ps_id cluster;
    if (asked->len == 0) {
        return PS_OK;
    }
    if (!ps_id_from(asked->data, asked->len, &cluster)) {
        return ps_fail(err, PS_ERR_INVALID, "a cluster id has 16 bytes, got %zu", asked->len);
    }
    if (ps_id_equal(&cluster, &coord->cluster_id)) {
        return PS_OK;
    }
    char here[PS_ID_TEXT_BYTES];
    char there[PS_ID_TEXT_BYTES];
    ps_id_text(&coord->cluster_id, here);
    ps_id_text(&cluster, there);
    return ps_fail(err, PS_ERR_NOT_FOUND, "this is cluster %s, asked for is cluster %s", here,
                   there);
}

static enum ps_status check_join(const struct ps_coord *coord, const Ps__V1__JoinRequest *request,
                                 struct ps_coord_join *ret, struct ps_error *err)
{
    PS_STATIC_ASSERT(PS_PROTOCOL_MIN == PS_PROTOCOL_MAX, "else choose the highest common one");
    if (request->protocol_min > PS_PROTOCOL_MAX || request->protocol_max < PS_PROTOCOL_MIN) {
        return ps_fail(err, PS_ERR_UNSUPPORTED,
                       "protocols %" PRIu32 " to %" PRIu32
                       " are asked for, %u to %u are spoken here: the programs differ in age",
                       request->protocol_min, request->protocol_max, PS_PROTOCOL_MIN,
                       PS_PROTOCOL_MAX);
    }
    enum ps_status status = check_cluster(coord, &request->cluster_id, err);
    if (status != PS_OK) {
        return status;
    }
    if (!ps_id_from(request->session.data, request->session.len, &ret->session) ||
        ps_id_none(&ret->session)) {
        return ps_fail(err, PS_ERR_INVALID, "a session is 16 random bytes, got %zu",
                       request->session.len);
    }
    if (request->kind != PS__V1__SESSION_KIND__WORKER &&
        request->kind != PS__V1__SESSION_KIND__READER &&
        request->kind != PS__V1__SESSION_KIND__SERVER) {
        return ps_fail(err, PS_ERR_INVALID, "session kind %u is not known",
                       (unsigned)request->kind);
    }
    if (strlen(request->name) > PS_NAME_BYTES_MAX ||
        strlen(request->address) > PS_ADDRESS_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "a name has at most %u bytes, an address %u",
                       PS_NAME_BYTES_MAX, PS_ADDRESS_BYTES_MAX);
    }
    ret->kind = (enum ps_coord_kind)request->kind;
    ret->name = request->name;
    ret->unleased = request->unleased && ret->kind == PS_COORD_WORKER;
    ret->address = ret->kind == PS_COORD_SERVER ? request->address : "";
    if (ret->kind == PS_COORD_SERVER && ret->address[0] == '\0') {
        return ps_fail(err, PS_ERR_INVALID, "a server must say where others reach it");
    }
    return PS_OK;
}

/* What a server brings along. Of a slot the last word counts. */
static enum ps_status check_server(const Ps__V1__JoinRequest *request,
                                   struct ps_coord_server_join *ret, struct ps_error *err)
{
    if (request->server.len != 0 &&
        !ps_id_from(request->server.data, request->server.len, &ret->id)) {
        return ps_fail(err, PS_ERR_INVALID, "a server's id has 16 bytes, got %zu",
                       request->server.len);
    }
    for (size_t i = 0; i < request->n_positions; i++) {
        const Ps__V1__SlotPosition *from = request->positions[i];
        if (from->slot >= PS_SLOTS) {
            return ps_fail(err, PS_ERR_INVALID, "there is no slot %" PRIu32, from->slot);
        }
        ret->lines[from->slot] =
            (struct ps_coord_position){.epoch = from->epoch, .position = from->position};
    }
    ret->generation = request->generation;
    ret->durability = (uint32_t)request->durability;
    return PS_OK;
}

void coord_join(struct coord_call *call, ProtobufCMessage *message)
{
    struct ps_coord *coord = call->coord;
    struct ps_coord_join who = {.name = ""};
    struct ps_coord_server_join server = {.generation = 0};
    struct ps_error err;
    uint64_t now_ms = ps_exec_now_ms(coord->options.exec);
    const Ps__V1__JoinRequest *request = (const Ps__V1__JoinRequest *)message;
    who.server = &server;
    if (check_join(coord, request, &who, &err) != PS_OK ||
        check_server(request, &server, &err) != PS_OK ||
        ps_coord_core_join(&coord->core, now_ms, &who, &call->member, &err) != PS_OK) {
        coord_call_fail_as(call, &err);
        return;
    }
    coord_peer_claim(coord, call->member);
    if (coord->core.members[call->member].kind != who.kind) {
        coord_call_fail(call, PS_ERR_INVALID, "the session has joined as something else");
        return;
    }
    call->session = who.session;
    coord_call_park(call, answer_join);
}
