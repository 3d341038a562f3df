/* load_unit.c — a whole table, pushed or pulled, one call after the other until each is done. */
#include <inttypes.h>

#include "base/assert.h"
#include "load.h"
#include "num/dtype.h"

#define RETRY_MS   50u
#define TIMEOUT_MS 30000u

/* Add fragment `fragment` of a slot to the request. @return its bytes; 0: it has none */
static uint64_t add_fragment(struct load_session *session, uint32_t slot, uint32_t fragment)
{
    struct ps_layout_view view = {.tables = &session->table.layout, .n_tables = 1};
    struct ps_layout_part parts[PS_CALL_PARTS_MAX];
    bool push = session->options->mode == LOAD_PUSH;
    struct ps_share *share = push ? &session->request->push : &session->request->pull;
    uint32_t n = ps_layout_fragment_parts(view, slot, fragment, parts, PS_CALL_PARTS_MAX);
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_part = parts[i].n_floats * (uint32_t)sizeof(float);
        n_bytes += n_part;
        share->parts[share->n_parts + i] = (struct ps_part){.table = session->table.number,
                                                            .block = parts[i].block,
                                                            .dtype = PS_DTYPE_F32,
                                                            .n_bytes = push ? n_part : 0};
    }
    if (n > 0) {
        share->slots[share->n_slots++] =
            (struct ps_slot_part){.slot = slot,
                                  .fragment = push ? fragment : 0,
                                  .n_fragments = push ? ps_layout_slot_fragments(view, slot) : 1,
                                  .first_part = share->n_parts,
                                  .n_parts = n,
                                  .epoch = session->table.epoch[slot]};
        share->n_parts += n;
    }
    return n_bytes;
}

static void start_request(struct load_session *session, uint64_t sequence)
{
    struct ps_data_request *request = session->request;
    request->session = session->id;
    request->session_number = session->number;
    request->generation = session->generation;
    request->stream = 0;
    request->sequence = sequence;
    request->acked_below = sequence;
    request->step = sequence;
    request->rows = 1;
    request->rate = 1.0f;
    request->no_clock = true;
    request->push.n_slots = request->push.n_parts = 0;
    request->pull.n_slots = request->pull.n_parts = 0;
    request->n_payload_bytes = 0;
}

static uint32_t fill_pieces(const struct load_session *session, struct ps_piece *pieces)
{
    const struct ps_share *push = &session->request->push;
    const struct ps_layout *layout = &session->table.layout;
    uint64_t own = session->options->first + session->index;
    for (uint32_t i = 0; i < push->n_parts; i++) {
        bool here = push->parts[i].block == own / layout->block_floats;
        pieces[i] =
            (struct ps_piece){.data = (const uint8_t *)(here ? session->own : session->zeros),
                              .n_bytes = push->parts[i].n_bytes};
    }
    return push->n_parts;
}

/* What the slots say: the worst of it. */
static enum ps_status take_reply(struct load_session *session, struct ps_msg *msg)
{
    struct ps_data_reply *reply = session->reply;
    enum ps_status status =
        ps_data_reply_read(ps_cursor_over(msg->slices, msg->n_slices), reply, &session->err);
    PS_ASSERT(status == PS_OK);
    for (uint32_t i = 0; i < reply->n_push + reply->n_pull; i++) {
        const struct ps_slot_reply *slot =
            i < reply->n_push ? &reply->push[i] : &reply->pull[i - reply->n_push];
        if (slot->status != PS_OK && (status == PS_OK || status == PS_ERR_BUSY)) {
            status = slot->status;
        }
    }
    return status;
}

static void read_elements(struct load_session *session, uint64_t n_done)
{
    struct ps_cursor payload = session->reply->payload;
    if (session->options->mode == LOAD_READ && n_done == 0) {
        size_t n_bytes = session->table.layout.block_floats * sizeof(float);
        n_bytes = n_bytes < payload.n_left ? n_bytes : payload.n_left;
        ps_cursor_copy(&payload, session->own, n_bytes); /* Block 0 is in the first call. */
    }
}

/* The request as it stands, until it is answered for good. */
static enum ps_status carry_out(struct load_session *session, uint64_t n_done)
{
    struct ps_piece pieces[PS_CALL_PARTS_MAX];
    bool push = session->options->mode == LOAD_PUSH;
    for (;;) {
        size_t n_head = ps_data_request_write(session->request, session->head, PS_HEAD_BYTES_MAX);
        struct ps_out out = {.head = session->head,
                             .n_head_bytes = n_head,
                             .pieces = pieces,
                             .n_pieces = fill_pieces(session, pieces)};
        session->n_calls++;
        enum ps_status status = load_call(&session->caller, session->data,
                                          push ? PS_METHOD_PUSH : PS_METHOD_PULL, &out, TIMEOUT_MS);
        uint64_t wait_ms = RETRY_MS;
        if (status == PS_OK) {
            struct ps_msg *msg = session->caller.request.reply;
            status = take_reply(session, msg);
            wait_ms = session->reply->retry_ms;
            if (status == PS_OK) {
                read_elements(session, n_done);
            }
            ps_msg_unref(msg);
        } else if (status != PS_ERR_BUSY) {
            session->n_failed++;
        }
        if (status == PS_OK) {
            return PS_OK;
        }
        if (status == PS_ERR_BUSY) {
            session->n_busy++;
            session->n_without_hint += wait_ms == 0;
            session->wait_ms_max = wait_ms > session->wait_ms_max ? wait_ms : session->wait_ms_max;
        } else if (!ps_status_retryable(status)) {
            return ps_fail(&session->err, status, "%s: %s", ps_status_text(status),
                           session->caller.request.err.text);
        }
        load_wait_ms(wait_ms);
        status = load_tick(session);
        if (status != PS_OK) {
            return ps_fail(&session->err, status, "the session is closed");
        }
    }
}

enum ps_status load_unit(struct load_session *session, uint64_t sequence)
{
    struct ps_layout_view view = {.tables = &session->table.layout, .n_tables = 1};
    enum ps_status status = PS_OK;
    uint64_t n_done = 0;
    for (uint32_t fragment = 0; fragment < PS_FRAGMENTS_MAX && status == PS_OK; fragment++) {
        uint64_t n_bytes = 0;
        start_request(session, sequence);
        for (uint32_t at = 0; at < PS_SLOTS && status == PS_OK; at++) {
            uint32_t slot = (session->table.layout.first_slot + at) % PS_SLOTS;
            n_bytes += add_fragment(session, slot, fragment);
            bool last = at + 1 == PS_SLOTS;
            if (n_bytes >= PS_CALL_PAYLOAD_BYTES || (last && n_bytes > 0)) {
                session->request->n_payload_bytes =
                    session->options->mode == LOAD_PUSH ? n_bytes : 0;
                status = carry_out(session, n_done++);
                n_bytes = 0;
                start_request(session, sequence);
            }
        }
        if (ps_layout_slot_fragments(view, session->table.layout.first_slot) <= fragment + 1) {
            break;
        }
    }
    return status;
}
