/* data_check.c — see data_check.h. */
#include "svc/data_check.h"

#include <inttypes.h>
#include <math.h>

#include "base/assert.h"
#include "cluster/keys.h"
#include "num/dtype.h"
#include "num/kernel.h"
#include "slot/seen_core.h"
#include "wire/keys.h"

#define RATE_MAX          1e30f  /* Beyond it the first product is infinite. */
#define PROXIMAL_RATE_MIN 1e-30f /* Likewise the first quotient below it. */
#define KEYS_LOOKED_AT    256u   /* At a time; on the stack. */

/* ---- What it names ------------------------------------------------------------------------- */

static enum ps_status check_codec(const struct ps_part *part, struct ps_error *err)
{
    return part->dtype == PS_DTYPE_F32 && part->codec == PS_CODEC_RAW
               ? PS_OK
               : ps_fail(err, PS_ERR_UNSUPPORTED, "dtype %u with codec %u is not known here",
                         part->dtype, part->codec);
}

/* Rows of a sparse table; whether the keys are what they should be is looked at later. */
static enum ps_status check_rows(const struct ps_table_info *info, const struct ps_part *part,
                                 bool push, struct ps_error *err)
{
    if (part->n_keys == 0 || part->block != 0) {
        return ps_fail(err, PS_ERR_INVALID, "table %u ('%s') is sparse: it has keys, no block %u",
                       part->table, info->spec.name, part->block);
    }
    uint64_t n_values = (uint64_t)part->n_keys * info->rows.width * sizeof(float);
    uint64_t n_bytes = push ? part->n_key_bytes + n_values : 0;
    if (part->n_bytes != n_bytes || part->n_key_bytes < part->n_keys) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%u keys of table %u ('%s') take %u and %" PRIu64 " bytes, said are %u",
                       part->n_keys, part->table, info->spec.name, part->n_key_bytes, n_bytes,
                       part->n_bytes);
    }
    return push ? check_codec(part, err) : PS_OK;
}

static enum ps_status check_part(const struct ps_data_check *check, struct ps_layout_view view,
                                 const struct ps_slot_part *slot, const struct ps_part *part,
                                 bool push, struct ps_error *err)
{
    if (part->table >= view.n_tables) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "no table number %u: define it first", part->table);
    }
    const struct ps_table_info *info = &check->catalogue->tables[part->table];
    if (info->sparse) {
        return check_rows(info, part, push, err);
    }
    const struct ps_layout *layout = &view.tables[part->table];
    if (part->n_keys != 0 || part->n_key_bytes != 0) {
        return ps_fail(err, PS_ERR_INVALID, "table %u ('%s') is dense: it has no keys", part->table,
                       info->spec.name);
    }
    if (part->block >= layout->n_blocks || ps_layout_slot(layout, part->block) != slot->slot) {
        return ps_fail(err, PS_ERR_INVALID, "table %u has no block %u in slot %u", part->table,
                       part->block, slot->slot);
    }
    if (!push) {
        return PS_OK;
    }
    uint32_t n_bytes = ps_layout_floats(layout, part->block) * (uint32_t)sizeof(float);
    if (part->n_bytes != n_bytes) {
        return ps_fail(err, PS_ERR_INVALID, "block %u of table %u has %u bytes, got %u",
                       part->block, part->table, n_bytes, part->n_bytes);
    }
    return check_codec(part, err);
}

static bool any_sparse(const struct ps_catalogue *catalogue, struct ps_layout_view view)
{
    bool any = false;
    for (uint32_t i = 0; i < view.n_tables && !any; i++) {
        any = catalogue->tables[i].sparse;
    }
    return any;
}

/* The first part from `n` on that is no rows. */
static uint32_t pass_rows(const struct ps_slot_part *slot, const struct ps_part *parts, uint32_t n)
{
    while (n < slot->n_parts && parts[n].n_keys > 0) {
        n++;
    }
    return n;
}

/*
 * A fragment is what one call carries of a slot, and the slot takes the sequence when all of them
 * are there: so of every table that it names it must carry all blocks that the cut gives it, and
 * none of another's. A client may not have heard of the newest tables yet: then it counts fewer
 * fragments. Rows may be in any fragment, also in ones behind those of the cut: their sender cuts
 * them, and the slot sees to it that all calls of a sequence agree on the number of fragments.
 */
static enum ps_status check_fragment(const struct ps_data_check *check, struct ps_layout_view view,
                                     const struct ps_slot_part *slot, const struct ps_part *parts,
                                     struct ps_error *err)
{
    struct ps_layout_walk walk = ps_layout_walk_slot(view, slot->slot);
    struct ps_layout_part at;
    uint32_t n = 0; /* Of its parts, rows or found in the cut. */
    uint32_t n_least = 0;
    uint32_t n_most = 0;
    while (ps_layout_walk_next(&walk, &at)) {
        n_most = at.fragment + 1;
        n_least = at.table <= parts[slot->n_parts - 1].table ? n_most : n_least;
        if (at.fragment != slot->fragment) {
            continue;
        }
        bool same = n > 0 && parts[n - 1].table == at.table;
        n = pass_rows(slot, parts, n);
        bool next = n < slot->n_parts && parts[n].table == at.table;
        if (next && parts[n].block == at.block) {
            n++;
        } else if (next || same) {
            return ps_fail(err, PS_ERR_INVALID,
                           "block %u of table %u is missing in fragment %u of slot %u", at.block,
                           at.table, slot->fragment, slot->slot);
        }
    }
    n = pass_rows(slot, parts, n);
    if (n < slot->n_parts) {
        return ps_fail(err, PS_ERR_INVALID, "block %u of table %u is not in fragment %u of slot %u",
                       parts[n].block, parts[n].table, slot->fragment, slot->slot);
    }
    n_most = any_sparse(check->catalogue, view) ? PS_FRAGMENTS_MAX : n_most;
    if (slot->n_fragments < n_least || slot->n_fragments > n_most ||
        slot->fragment >= slot->n_fragments) {
        return ps_fail(err, PS_ERR_INVALID, "slot %u has %u fragments, not %u", slot->slot, n_most,
                       slot->n_fragments);
    }
    return PS_OK;
}

static bool ascending(const struct ps_part *a, const struct ps_part *b)
{
    return a->table < b->table || (a->table == b->table && a->block < b->block);
}

/* Each block once and in order, each sparse table once; a push carries whole fragments. */
static enum ps_status check_slot(const struct ps_data_check *check, struct ps_layout_view view,
                                 const struct ps_slot_part *slot, const struct ps_part *parts,
                                 bool push, struct ps_error *err)
{
    for (uint32_t k = 0; k < slot->n_parts; k++) {
        if (k > 0 && !ascending(&parts[k - 1], &parts[k])) {
            return ps_fail(err, PS_ERR_INVALID, "blocks of slot %u are not in order", slot->slot);
        }
        enum ps_status status = check_part(check, view, slot, &parts[k], push, err);
        if (status != PS_OK) {
            return status;
        }
    }
    return push ? check_fragment(check, view, slot, parts, err) : PS_OK;
}

/* Each slot once. */
static enum ps_status check_share(const struct ps_data_check *check, struct ps_layout_view view,
                                  const struct ps_share *share, bool push, struct ps_error *err)
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
        status = check_slot(check, view, slot, &share->parts[slot->first_part], push, err);
    }
    return status;
}

/* ---- Keys ----------------------------------------------------------------------------------- */

/* That they ascend is how they are written; each must belong to the slot. */
static enum ps_status check_keys(const struct ps_data_check *check, uint32_t slot,
                                 const struct ps_part *part, struct ps_cursor bytes,
                                 struct ps_error *err)
{
    uint64_t keys[KEYS_LOOKED_AT];
    struct ps_keys_reader reader = ps_keys_reader(bytes, part->n_keys);
    const char *name = check->catalogue->tables[part->table].spec.name;
    for (size_t n = 0; (n = ps_keys_next(&reader, keys, PS_ARRAY_LEN(keys))) > 0;) {
        for (size_t i = 0; i < n; i++) {
            if (ps_keys_slot(keys[i], check->key_seed) != slot) {
                return ps_fail(err, PS_ERR_INVALID,
                               "table %u ('%s'): key %" PRIu64 " belongs to slot %u, not to %u",
                               part->table, name, keys[i], ps_keys_slot(keys[i], check->key_seed),
                               slot);
            }
        }
    }
    return !reader.failed
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "table %u ('%s'): %u bytes are not %u ascending keys",
                         part->table, name, part->n_key_bytes, part->n_keys);
}

/* All keys of a direction, of which `payload` begins with the parts. */
static enum ps_status check_share_keys(const struct ps_data_check *check,
                                       const struct ps_share *share, bool push,
                                       struct ps_cursor *payload, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; i < share->n_slots && status == PS_OK; i++) {
        const struct ps_slot_part *slot = &share->slots[i];
        for (uint32_t k = 0; k < slot->n_parts && status == PS_OK; k++) {
            const struct ps_part *part = &share->parts[slot->first_part + k];
            struct ps_cursor bytes = ps_cursor_split(payload, ps_part_payload(part, push));
            if (part->n_keys > 0) {
                bytes = ps_cursor_split(&bytes, part->n_key_bytes);
                status = check_keys(check, slot->slot, part, bytes, err);
            }
        }
    }
    return status;
}

/* ---- Values --------------------------------------------------------------------------------- */

/* The words for the first value of a part that is not finite; it is known that there is one. */
static enum ps_status name_row(const struct ps_table_info *info, const struct ps_part *part,
                               struct ps_cursor keys, struct ps_cursor values, struct ps_error *err)
{
    struct ps_keys_reader reader = ps_keys_reader(keys, part->n_keys);
    uint64_t key = 0;
    float value = 0.0f;
    while (isfinite(value) && ps_keys_next(&reader, &key, 1) == 1) {
        for (uint32_t i = 0; i < info->rows.width && isfinite(value); i++) {
            ps_cursor_copy(&values, &value, sizeof(value));
        }
    }
    return ps_fail(err, PS_ERR_INVALID,
                   "table %" PRIu32 " ('%s'): the gradient of key %" PRIu64 " is not finite, %g",
                   part->table, info->spec.name, key, (double)value);
}

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
            const struct ps_table_info *info = &check->catalogue->tables[part->table];
            struct ps_cursor values = ps_cursor_split(&payload, part->n_bytes);
            struct ps_cursor keys = ps_cursor_split(&values, part->n_key_bytes);
            if (!ps_cursor_finite(values, values.n_left / sizeof(float))) {
                check->not_finite = true;
                return info->sparse ? name_row(info, part, keys, values, err)
                                    : name_value(check->catalogue, part, values, err);
            }
            if (info->optim->proximal && !(request->rate >= PROXIMAL_RATE_MIN)) {
                return ps_fail(err, PS_ERR_INVALID, "rate %g: the rule of table '%s' divides by it",
                               (double)request->rate, info->spec.name);
            }
        }
    }
    return PS_OK;
}

/* What a slot of a request takes in the payload. */
static size_t slot_bytes(const struct ps_share *share, const struct ps_slot_part *slot, bool push)
{
    size_t n_bytes = 0;
    for (uint32_t k = 0; k < slot->n_parts; k++) {
        n_bytes += ps_part_payload(&share->parts[slot->first_part + k], push);
    }
    return n_bytes;
}

/* Cut the payload by slots, in the order of the header. */
static void cut_payload(struct ps_data_call *call)
{
    struct ps_cursor payload = call->request.payload;
    for (uint32_t i = 0; i < call->request.push.n_slots; i++) {
        const struct ps_slot_part *slot = &call->request.push.slots[i];
        call->payloads[i] = ps_cursor_split(&payload, slot_bytes(&call->request.push, slot, true));
    }
    for (uint32_t i = 0; i < call->request.pull.n_slots; i++) {
        const struct ps_slot_part *slot = &call->request.pull.slots[i];
        call->keys[i] = ps_cursor_split(&payload, slot_bytes(&call->request.pull, slot, false));
    }
    PS_ASSERT(!payload.failed); /* The reader has compared the sums. */
}

static enum ps_status check_pull_size(const struct ps_data_check *check, struct ps_layout_view view,
                                      const struct ps_share *pull, struct ps_error *err)
{
    uint64_t n_floats = 0; /* 512 times 32 bits times the width of a row: no wrap. */
    for (uint32_t i = 0; i < pull->n_parts; i++) {
        const struct ps_part *part = &pull->parts[i];
        const struct ps_table_info *info = &check->catalogue->tables[part->table];
        n_floats += info->sparse ? (uint64_t)part->n_keys * info->rows.width
                                 : ps_layout_floats(&view.tables[part->table], part->block);
    }
    if (n_floats > (PS_MESSAGE_BYTES_MAX - PS_HEAD_BYTES_MAX) / sizeof(float)) {
        return ps_fail(err, PS_ERR_INVALID,
                       "a pull of %" PRIu64 " floats does not fit one reply: ask for fewer blocks "
                       "or keys",
                       n_floats);
    }
    return PS_OK;
}

/* ---- The whole ------------------------------------------------------------------------------ */

enum ps_status ps_data_check_generation(uint64_t generation, uint64_t said, struct ps_error *err)
{
    return generation == 0 || said == 0 || said == generation
               ? PS_OK
               : ps_fail(err, PS_ERR_FENCED,
                         "generation %" PRIu64 " is over, this is %" PRIu64 ": join anew", said,
                         generation);
}

enum ps_status ps_data_check_head(const struct ps_data_check *check, struct ps_data_call *call,
                                  struct ps_error *err)
{
    struct ps_data_request *request = &call->request;
    enum ps_status status = ps_data_check_generation(check->generation, request->generation, err);
    if (status != PS_OK) {
        return status;
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
        for (uint32_t i = 0; i < request->push.n_parts; i++) {
            ps_cursor_skip(&request->payload, request->push.parts[i].n_bytes);
        }
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
    struct ps_cursor payload = request->payload;
    enum ps_status status = check_share(check, view, &request->push, true, err);
    if (status == PS_OK) {
        status = check_share(check, view, &request->pull, false, err);
    }
    if (status == PS_OK) {
        status = check_pull_size(check, view, &request->pull, err);
    }
    if (status == PS_OK) {
        status = check_share_keys(check, &request->push, true, &payload, err);
    }
    if (status == PS_OK) {
        status = check_share_keys(check, &request->pull, false, &payload, err);
    }
    if (status == PS_OK) {
        cut_payload(call);
        status = check_values(check, call, err);
    }
    return status;
}
