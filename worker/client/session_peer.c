/*
 * session_peer.c — who should answer and does not: counted from the first call without an answer,
 * said in the log at growing intervals, and at last the end of the cluster.
 */
#include <stdio.h>
#include <string.h>

#include "client/session_impl.h"
#include "obs/log.h"

/* ---- Peers --------------------------------------------------------------------------------- */

void ps_session_peer_heard(struct ps_session_peer *peer, uint64_t now_ms)
{
    peer->heard_ms = now_ms;
    peer->silent = false;
    peer->next_log_ms = 0;
}

void ps_session_peer_failed(struct ps_session_peer *peer, uint64_t start_ms, uint64_t now_ms)
{
    peer->failed_ms = now_ms;
    if (!peer->silent) {
        peer->silent = true;
        peer->since_ms = start_ms > peer->heard_ms ? start_ms : peer->heard_ms;
        peer->next_log_ms = PS_SESSION_LOG_FIRST_MS;
    }
}

bool ps_session_peer_log_due(struct ps_session_peer *peer, uint64_t now_ms)
{
    if (!peer->silent || now_ms - peer->since_ms < peer->next_log_ms) {
        return false;
    }
    peer->next_log_ms = 2 * (now_ms - peer->since_ms);
    return true;
}

/* ---- Servers ------------------------------------------------------------------------------- */

void ps_session_server_connect(struct ps_session *session, uint32_t index)
{
    struct ps_session_server *server = &session->servers[index];
    if (server->n_calls > 0 || server->address[0] == '\0' ||
        (server->channel != NULL && strcmp(server->address, server->channel_address) == 0)) {
        return;
    }
    if (server->channel != NULL) {
        ps_channel_close(server->channel);
        server->channel = NULL;
    }
    struct ps_error err;
    if (ps_channel_open(session->options.transport, server->address, PS_TRAFFIC_DATA,
                        session->options.creds, &server->channel, &err) != PS_OK) {
        server->channel = NULL;
        uint64_t now_ms = ps_exec_now_ms(session->options.exec);
        ps_session_peer_failed(&server->peer, now_ms, now_ms);
        ps_log(PS_LOG_WARN, "server.odd", "server=%u address=\"%s\" reason=\"%s\"", index,
               server->address, err.text);
        return;
    }
    memcpy(server->channel_address, server->address, sizeof(server->channel_address));
}

/*
 * A server that came back elsewhere: it has its own time to answer, but what was said of its
 * silence was said of this server, and its return will be told.
 */
void ps_session_server_moved(struct ps_session *session, uint32_t index, const char *address)
{
    struct ps_session_server *server = &session->servers[index];
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    if (strcmp(server->address, address) == 0) {
        return;
    }
    if (server->address[0] != '\0') {
        ps_log(PS_LOG_INFO, "server.moved", "server=%u from=\"%s\" to=\"%s\"", index,
               server->address, address);
    }
    (void)snprintf(server->address, sizeof(server->address), "%s", address);
    server->peer.since_ms = now_ms;
    server->peer.refuses = false;
    ps_list_for_each (at, &session->calls) {
        struct ps_session_call *call = PS_CONTAINER_OF(at, struct ps_session_call, node);
        if (call->server == index) {
            ps_request_cancel(server->channel, &call->request);
        }
    }
    ps_session_scan_call_back(session, index);
}

/* Still or again the channel that placement names; calls to an old one run out first. */
bool ps_session_server_connected(const struct ps_session_server *server)
{
    return server->channel != NULL && strcmp(server->address, server->channel_address) == 0;
}

static void check_server(struct ps_session *session, uint32_t index, uint64_t now_ms)
{
    struct ps_session_server *server = &session->servers[index];
    struct ps_session_peer *peer = &server->peer;
    /* Silence counts only while somebody asks. */
    bool asked = server->n_calls > 0 || now_ms - peer->failed_ms <= 2ull * PS_BACKOFF_CAP_MS;
    if (!peer->silent || !asked || session->n_works + session->n_scans == 0) {
        return;
    }
    unsigned long long silent_s = (now_ms - peer->since_ms) / 1000;
    const char *how = peer->refuses ? "refuses every call" : "is unreachable";
    if (now_ms - peer->since_ms >= session->options.give_up_ms) {
        ps_session_lose(session, "server %u (%s) %s since %llu s", index, server->address, how,
                        silent_s);
    } else if (ps_session_peer_log_due(peer, now_ms)) {
        ps_log(PS_LOG_WARN, "server.unreachable",
               "msg=\"server %u (%s) %s since %llu s: retrying\"", index, server->address, how,
               silent_s);
    }
}

void ps_session_servers_check(struct ps_session *session, uint64_t now_ms)
{
    for (uint32_t i = 0; i < session->n_servers; i++) {
        ps_session_server_connect(session, i);
        check_server(session, i, now_ms);
    }
}

void ps_session_server_heard(struct ps_session *session, uint32_t index)
{
    struct ps_session_server *server = &session->servers[index];
    if (server->peer.silent && server->peer.next_log_ms > PS_SESSION_LOG_FIRST_MS) {
        ps_log(PS_LOG_INFO, "server.back", "server=%u address=\"%s\"", index, server->address);
    }
    ps_session_peer_heard(&server->peer, ps_exec_now_ms(session->options.exec));
}

void ps_session_server_failed(struct ps_session *session, uint32_t index,
                              const struct ps_request *request, uint64_t start_ms)
{
    struct ps_session_peer *peer = &session->servers[index].peer;
    enum ps_status status = request->err.status;
    bool silent = status == PS_ERR_UNAVAIL || status == PS_ERR_TIMEOUT;
    /* Our servers say when to come back; something between that refuses for ever does not. */
    bool foreign = (status == PS_ERR_BUSY || status == PS_ERR_NOMEM) && request->retry_ms == 0;
    if (silent || foreign) {
        bool slept = session->awake_ms > start_ms; /* Nobody answers a stopped process. */
        ps_session_peer_failed(peer, slept ? session->awake_ms : start_ms,
                               ps_exec_now_ms(session->options.exec));
        peer->refuses = foreign;
    } else if (status != PS_ERR_CANCELED) {
        ps_session_server_heard(session, index);
    }
}

/* A server that is full answers BUSY for ever: whoever waits for it must be told. */
void ps_session_server_busy(struct ps_session *session, uint32_t index, bool busy)
{
    struct ps_session_server *server = &session->servers[index];
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    if (!busy || server->busy_since_ms == 0) {
        server->busy_since_ms = busy ? now_ms : 0;
        server->busy_log_ms = PS_SESSION_LOG_BUSY_MS;
    } else if (now_ms - server->busy_since_ms >= server->busy_log_ms) {
        server->busy_log_ms *= 2;
        ps_log(PS_LOG_WARN, "server.busy",
               "msg=\"server %u (%s) has refused for %llu s, busy or without memory for new rows "
               "(its log says table.full then): retrying\"",
               index, server->address, (unsigned long long)(now_ms - server->busy_since_ms) / 1000);
    }
}

void ps_session_slot_lost(struct ps_session *session, uint32_t index, uint32_t slot)
{
    const char *address = session->servers[index].address;
    uint64_t now_ms = ps_exec_now_ms(session->options.exec);
    if (session->lost_ms == 0) {
        session->lost_ms = now_ms;
        ps_log(
            PS_LOG_WARN, "slot.lost",
            "msg=\"server %u (%s) lacks updates of slot %u that it had acknowledged: waiting for "
            "the coordinator\"",
            index, address, slot);
    } else if (now_ms - session->lost_ms >= session->options.give_up_ms) {
        ps_session_lose(session,
                        "server %u (%s) lacks updates of slot %u that it had acknowledged, and the "
                        "coordinator has decided nothing for %llu s",
                        index, address, slot,
                        (unsigned long long)(now_ms - session->lost_ms) / 1000);
    }
}

void ps_session_servers_rest(struct ps_session *session)
{
    if (session->n_works + session->n_scans > 0) {
        return;
    }
    for (uint32_t i = 0; i < session->n_servers; i++) {
        session->servers[i].peer.silent = false; /* Nobody asks: silence means nothing. */
    }
}
