/* data_check.c — see data_check.h. */
#include "svc/data_check.h"

#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "num/dtype.h"
#include "num/kernel.h"
#include "slot/seen_core.h"

#define RATE_MAX 1e30f /* Beyond it the first product is infinite. */

/* ---- What it names ------------------------------------------------------------------------- */

static enum ps_status check_part(struct ps_layout_view view, const struct ps_slot_part *slot,
                                 const struct ps_part *part, bool push, struct ps_error *err)
{
    if (part->table >= view.n_tables) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "no table number %u: define it first", part->table);
    }
    const struct ps_layout *layout = &view.tables[part->table];
    if (part->block >= layout->n_blocks || ps_layout_slot(layout, part->block) != slot->slot) {
        return ps_fail(err, PS_ERR_INVALID, "table %u has no block %u in slot %u", part->table,
                       part->block, slot->slot);
    }
    if (!push) {
        return PS_OK;
    }
    uint32_t n_bytes = ps_layout_floats(layout, part->block) * (uint32_t)sizeof(float);
    if (part->dtype != PS_DTYPE_F32 || part->codec != PS_CODEC_RAW) {
        return ps_fail(err, PS_ERR_UNSUPPORTED, "dtype %u with codec %u is not known here",
                       part->dtype, part->codec);
    }
    if (part->n_bytes != n_bytes) {
        return ps_fail(err, PS_ERR_INVALID, "block %u of table %u has %u bytes, got %u",
                       part->block, part->table, n_bytes, part->n_bytes);
    }
    return PS_OK;
}

/*
 * A fragment is what one call carries of a slot, and the slot takes the sequence when all of them
 * are there: so of every table that it names it must carry all blocks that the cut gives it, and
 * none of another's. A client may not have heard of the newest tables yet: then it counts fewer
 * fragments.
 */
static enum ps_status check_fragment(struct ps_layout_view view, const struct ps_slot_part *slot,
                                     const struct ps_part *parts, struct ps_error *err)
{
    struct ps_layout_walk walk = ps_layout_walk_slot(view, slot->slot);
    struct ps_layout_part at;
    uint32_t n = 0; /* Of its parts, found in the cut. */
    uint32_t n_least = 0;
    uint32_t n_most = 0;
    while (ps_layout_walk_next(&walk, &at)) {
        n_most = at.fragment + 1;
        n_least = at.table <= parts[slot->n_parts - 1].table ? n_most : n_least;
        if (at.fragment != slot->fragment) {
            continue;
        }
        bool next = n < slot->n_parts && parts[n].table == at.table;
        if (next && parts[n].block == at.block) {
            n++;
        } else if (next || (n > 0 && parts[n - 1].table == at.table)) {
            return ps_fail(err, PS_ERR_INVALID,
                           "block %u of table %u is missing in fragment %u of slot %u", at.block,
                           at.table, slot->fragment, slot->slot);
        }
    }
    if (n < slot->n_parts) {
        return ps_fail(err, PS_ERR_INVALID, "block %u of table %u is not in fragment %u of slot %u",
                       parts[n].block, parts[n].table, slot->fragment, slot->slot);
    }
    if (slot->n_fragments < n_least || slot->n_fragments > n_most) {
        return ps_fail(err, PS_ERR_INVALID, "slot %u has %u fragments, not %u", slot->slot, n_most,
                       slot->n_fragments);
    }
    return PS_OK;
}

static bool ascending(const struct ps_part *a, const struct ps_part *b)
{
    return a->table < b->table || (a->table == b->table && a->block < b->block);
}

/* Each block once and in order; a push carries whole fragments. */
static enum ps_status check_slot(struct ps_layout_view view, const struct ps_slot_part *slot,
                                 const struct ps_part *parts, bool push, struct ps_error *err)
{
    for (uint32_t k = 0; k < slot->n_parts; k++) {
        if (k > 0 && !ascending(&parts[k - 1], &parts[k])) {
            return ps_fail(err, PS_ERR_INVALID, "blocks of slot %u are not in order", slot->slot);
        }
        enum ps_status status = check_part(view, slot, &parts[k], push, err);
        if (status != PS_OK) {
            return status;
        }
    }
    return push ? check_fragment(view, slot, parts, err) : PS_OK;
}

/* Each slot once. */
static enum ps_status check_share(struct ps_layout_view view, const struct ps_share *share,
                                  bool push, struct ps_error *err)
{
    uint64_t met = 0;
    enum ps_status status = PS_OK;
    PS_STATIC_ASSERT(PS_SLOTS <= 64, "one bit per slot");
    for (uint32_t i = 0; i < share->n_slots && status == PS_OK; i++) {
        const struct ps_slot_part *slot = &share->slots[i];
        if (slot->slot >= PS_SLOTS || (met >> slot->slot & 1) != 0 || slot->n_parts == 0) {
            return ps_fail(err, PS_ERR_INVALID, "slot %u is out of range, repeated or empty",
                           slot->slot);
        }
        met |= 1ull << slot->slot;
        status = check_slot(view, slot, &share->parts[slot->first_part], push, err);
    }
    return status;
}

/* ---- Values --------------------------------------------------------------------------------- */

/* The words for the first value of a part that is not finite; it is known that there is one. */
static enum ps_status name_value(const struct ps_catalogue *catalogue, const struct ps_part *part,
                                 struct ps_cursor values, struct ps_error *err)
{
    uint64_t element = ps_layout_first_element(&catalogue->layouts[part->table], part->block);
    float value = 0.0f;
    for (uint32_t i = 0; i < part->n_bytes / sizeof(float); i++) {
        ps_cursor_copy(&values, &value, sizeof(value));
        if (!isfinite(value)) {
            element += i;
            break;
        }
    }
    return ps_fail(err, PS_ERR_INVALID,
                   "table %" PRIu32 " ('%s'): the gradient of element %" PRIu64
                   " is not finite, %g",
                   part->table, catalogue->tables[part->table].spec.name, element, (double)value);
}

static enum ps_status check_values(struct ps_data_check *check, const struct ps_data_call *call,
                                   struct ps_error *err)
{
    const struct ps_data_request *request = &call->request;
    struct ps_cursor payload = request->payload;
    if (!(request->rate >= 0.0f && request->rate <= RATE_MAX)) { /* NaN fails too. */
        return ps_fail(err, PS_ERR_INVALID, "rate %g is not a learning rate",
                       (double)request->rate);
    }
    for (uint32_t i = 0; i < request->push.n_slots; i++) {
        const struct ps_slot_part *slot = &request->push.slots[i];
        for (uint32_t k = 0; k < slot->n_parts; k++) {
            const struct ps_part *part = &request->push.parts[slot->first_part + k];
            struct ps_cursor values = ps_cursor_split(&payload, part->n_bytes);
            if (!ps_cursor_finite(values, part->n_bytes / sizeof(float))) {
                check->not_finite = true;
                return name_value(check->catalogue, part, values, err);
            }
        }
    }
    return PS_OK;
}

/* Cut the payload by slots, in the order of the header. */
static void cut_payload(struct ps_data_call *call)
{
    struct ps_cursor payload = call->request.payload;
    for (uint32_t i = 0; i < call->request.push.n_slots; i++) {
        const struct ps_slot_part *slot = &call->request.push.slots[i];
        size_t n_bytes = 0;
        for (uint32_t k = 0; k < slot->n_parts; k++) {
            n_bytes += call->request.push.parts[slot->first_part + k].n_bytes;
        }
        call->payloads[i] = ps_cursor_split(&payload, n_bytes);
        PS_ASSERT(!payload.failed); /* The reader has compared the sums. */
    }
}

static enum ps_status check_pull_size(struct ps_layout_view view, const struct ps_share *pull,
                                      struct ps_error *err)
{
    uint64_t n_bytes = 0;
    for (uint32_t i = 0; i < pull->n_parts; i++) {
        const struct ps_part *part = &pull->parts[i];
        n_bytes += ps_layout_floats(&view.tables[part->table], part->block) * sizeof(float);
    }
    if (n_bytes > PS_MESSAGE_BYTES_MAX - PS_HEAD_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID,
                       "a pull of %" PRIu64 " bytes does not fit one reply: ask for fewer blocks",
                       n_bytes);
    }
    return PS_OK;
}

/* ---- The whole ------------------------------------------------------------------------------ */

enum ps_status ps_data_check_head(const struct ps_data_check *check, struct ps_data_call *call,
                                  struct ps_error *err)
{
    struct ps_data_request *request = &call->request;
    uint64_t generation = check->generation;
    if (generation != 0 && request->generation != 0 && request->generation != generation) {
        return ps_fail(err, PS_ERR_FENCED,
                       "generation %" PRIu64 " is over, this is %" PRIu64 ": join anew",
                       request->generation, generation);
    }
    if (call->kind == PS_DATA_PULL ? request->pull.n_slots == 0 : request->push.n_slots == 0) {
        return ps_fail(err, PS_ERR_INVALID, "the call names no slot");
    }
    if (request->stream >= PS_SEEN_LEASES_END) {
        return ps_fail(err, PS_ERR_INVALID, "stream %" PRIu64 " is no lease",
                       request->stream); /* It may be a session's own. */
    }
    /* Fields of the other methods are unknown fields of this one. */
    if (call->kind == PS_DATA_PULL) {
        request->push.n_slots = 0;
        request->push.n_parts = 0;
    } else if (call->kind == PS_DATA_PUSH) {
        request->pull.n_slots = 0;
        request->pull.n_parts = 0;
    }
    /* What a session stages holds the whole message: so a message is its payload and not more. */
    if (call->msg->n_bytes - request->n_payload_bytes > PS_HEAD_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "a message of %zu bytes for a payload of %" PRIu64,
                       call->msg->n_bytes, request->n_payload_bytes);
    }
    return PS_OK;
}

enum ps_status ps_data_check(struct ps_data_check *check, struct ps_data_call *call,
                             struct ps_error *err)
{
    struct ps_data_request *request = &call->request;
    struct ps_layout_view view = ps_catalogue_view(check->catalogue);
    enum ps_status status = check_share(view, &request->push, true, err);
    if (status == PS_OK) {
        status = check_share(view, &request->pull, false, err);
    }
    if (status == PS_OK) {
        status = check_pull_size(view, &request->pull, err);
    }
    if (status == PS_OK) {
        cut_payload(call);
        status = check_values(check, call, err);
    }
    return status;
}
