/* chance.c — see chance.h. */
#include "chance.h"

#include <string.h>

#include <check.h>

/* Numbers of every width: varints of 1 to 10 bytes are equally likely, 0 too. */
static uint64_t number(struct ps_rng *rng)
{
    uint64_t n_bits = ps_rng_below(rng, 65);
    return n_bits == 0 ? 0 : ps_rng_next(rng) >> (64 - n_bits);
}

static uint32_t narrow(struct ps_rng *rng)
{
    return (uint32_t)number(rng);
}

static void chance_share(struct ps_rng *rng, bool push, struct ps_share *ret)
{
    ret->n_slots = (uint32_t)ps_rng_below(rng, CHANCE_SLOTS_MAX + 1);
    ret->n_parts = 0;
    for (uint32_t i = 0; i < ret->n_slots; i++) {
        struct ps_slot_part *slot = &ret->slots[i];
        *slot = (struct ps_slot_part){
            .slot = narrow(rng),
            .n_fragments = 1,
            .first_part = ret->n_parts,
            .n_parts = (uint32_t)ps_rng_below(rng, CHANCE_PARTS_MAX + 1),
            .epoch = number(rng),
            .seen_epoch = number(rng),
            .seen_position = number(rng),
        };
        if (push) {
            slot->fragment = narrow(rng);
            slot->n_fragments = narrow(rng) | 1u; /* 0 would not be written: 1 is assumed. */
        }
        for (uint32_t p = 0; p < slot->n_parts; p++) {
            ret->parts[ret->n_parts++] = (struct ps_part){
                .table = narrow(rng),
                .block = narrow(rng),
                .dtype = (uint32_t)ps_rng_below(rng, 2),
                .codec = 0,
                .n_bytes = push ? (uint32_t)ps_rng_below(rng, 700) : 0,
                .n_keys = ps_rng_below(rng, 2) == 0 ? 0 : narrow(rng),
                .n_key_bytes = (uint32_t)ps_rng_below(rng, 100),
            };
        }
    }
}

void chance_request(struct ps_rng *rng, struct ps_data_request *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < sizeof(ret->session.bytes); i++) {
        ret->session.bytes[i] = (uint8_t)ps_rng_next(rng);
    }
    ret->session_number = number(rng);
    ret->stream = number(rng);
    ret->sequence = number(rng);
    ret->acked_below = number(rng);
    ret->step = number(rng);
    ret->rows = narrow(rng);
    ret->rate = (float)ps_rng_below(rng, 100) / 7.0f;
    ret->generation = number(rng);
    ret->read_clock = number(rng);
    ret->pull_step = number(rng);
    chance_share(rng, true, &ret->push);
    chance_share(rng, false, &ret->pull);
    for (uint32_t i = 0; i < ret->push.n_parts; i++) {
        ret->n_payload_bytes += ps_part_payload(&ret->push.parts[i], true);
    }
    for (uint32_t i = 0; i < ret->pull.n_parts; i++) {
        ret->n_payload_bytes += ps_part_payload(&ret->pull.parts[i], false);
    }
}

static uint32_t chance_slot_replies(struct ps_rng *rng, struct ps_slot_reply *ret)
{
    uint32_t n = (uint32_t)ps_rng_below(rng, CHANCE_SLOTS_MAX + 1);
    for (uint32_t i = 0; i < n; i++) {
        ret[i] = (struct ps_slot_reply){
            .slot = (uint32_t)ps_rng_below(rng, PS_SLOTS),
            .status = (enum ps_status)ps_rng_below(rng, PS_ERR_NO_SPACE + 1u),
            .epoch = number(rng),
            .position = number(rng),
            .n_bytes = (uint32_t)ps_rng_below(rng, 1000),
        };
    }
    return n;
}

void chance_reply(struct ps_rng *rng, struct ps_data_reply *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->term = number(rng);
    ret->min_clock = number(rng);
    ret->retry_ms = narrow(rng);
    ret->n_push = chance_slot_replies(rng, ret->push);
    ret->n_pull = chance_slot_replies(rng, ret->pull);
    for (uint32_t i = 0; i < ret->n_pull; i++) {
        ret->n_payload_bytes += ret->pull[i].n_bytes;
    }
}

const uint8_t *chance_payload(void)
{
    static uint8_t bytes[CHANCE_BYTES_MAX];
    for (size_t i = 0; bytes[1] == 0 && i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 37 + i / 256);
    }
    return bytes;
}

/* ---- Twins ---------------------------------------------------------------------------------- */

struct twins {
    Ps__V1__Part parts[CHANCE_SLOTS_MAX][CHANCE_PARTS_MAX];
    Ps__V1__Part *part_list[CHANCE_SLOTS_MAX][CHANCE_PARTS_MAX];
    Ps__V1__SlotPush push[CHANCE_SLOTS_MAX];
    Ps__V1__SlotPush *push_list[CHANCE_SLOTS_MAX];
    Ps__V1__SlotPull pull[CHANCE_SLOTS_MAX];
    Ps__V1__SlotPull *pull_list[CHANCE_SLOTS_MAX];
};

static void twin_parts(struct twins *twins, uint32_t i, const struct ps_share *share)
{
    for (uint32_t p = 0; p < share->slots[i].n_parts; p++) {
        const struct ps_part *from = &share->parts[share->slots[i].first_part + p];
        Ps__V1__Part *to = &twins->parts[i][p];
        ps__v1__part__init(to);
        to->table = from->table;
        to->block = from->block;
        to->dtype = (Ps__V1__Dtype)from->dtype;
        to->codec = (Ps__V1__Codec)from->codec;
        to->bytes = from->n_bytes;
        to->keys = from->n_keys;
        to->key_bytes = from->n_key_bytes;
        twins->part_list[i][p] = to;
    }
}

static ProtobufCBinaryData borrowed(const void *data, size_t n_bytes)
{
    ProtobufCBinaryData ret = {.len = n_bytes};
    memcpy(&ret.data, &data, sizeof(ret.data)); /* protobuf-c does not write through it. */
    return ret;
}

static void twin_slots(const struct ps_data_request *request, struct twins *push,
                       struct twins *pull)
{
    for (uint32_t i = 0; i < request->push.n_slots; i++) {
        const struct ps_slot_part *from = &request->push.slots[i];
        Ps__V1__SlotPush *to = &push->push[i];
        twin_parts(push, i, &request->push);
        ps__v1__slot_push__init(to);
        to->slot = from->slot;
        to->epoch = from->epoch;
        to->fragment = from->fragment;
        to->fragments = from->n_fragments;
        to->seen_epoch = from->seen_epoch;
        to->seen_position = from->seen_position;
        to->n_parts = from->n_parts;
        to->parts = push->part_list[i];
        push->push_list[i] = to;
    }
    for (uint32_t i = 0; i < request->pull.n_slots; i++) {
        const struct ps_slot_part *from = &request->pull.slots[i];
        Ps__V1__SlotPull *to = &pull->pull[i];
        twin_parts(pull, i, &request->pull);
        ps__v1__slot_pull__init(to);
        to->slot = from->slot;
        to->epoch = from->epoch;
        to->seen_epoch = from->seen_epoch;
        to->seen_position = from->seen_position;
        to->n_parts = from->n_parts;
        to->parts = pull->part_list[i];
        pull->pull_list[i] = to;
    }
}

size_t chance_pack_request(const struct ps_data_request *request, uint8_t *to)
{
    static struct twins push;
    static struct twins pull;
    twin_slots(request, &push, &pull);
    Ps__V1__PushPullRequest twin = PS__V1__PUSH_PULL_REQUEST__INIT;
    twin.session = borrowed(request->session.bytes, sizeof(request->session.bytes));
    twin.session_number = request->session_number;
    twin.stream = request->stream;
    twin.sequence = request->sequence;
    twin.acked_below = request->acked_below;
    twin.step = request->step;
    twin.rows = request->rows;
    twin.rate = request->rate;
    twin.generation = request->generation;
    twin.read_clock = request->read_clock;
    twin.n_slots = request->push.n_slots;
    twin.slots = push.push_list;
    twin.pull_step = request->pull_step;
    twin.n_pull_slots = request->pull.n_slots;
    twin.pull_slots = pull.pull_list;
    twin.payload = borrowed(chance_payload(), request->n_payload_bytes);
    ck_assert(ps__v1__push_pull_request__get_packed_size(&twin) <= CHANCE_BYTES_MAX);
    return ps__v1__push_pull_request__pack(&twin, to);
}

static void twin_replies(const struct ps_slot_reply *from, uint32_t n, Ps__V1__SlotReply *to,
                         Ps__V1__SlotReply **list)
{
    for (uint32_t i = 0; i < n; i++) {
        ps__v1__slot_reply__init(&to[i]);
        to[i].slot = from[i].slot;
        to[i].status = (Ps__V1__Status)from[i].status;
        to[i].epoch = from[i].epoch;
        to[i].position = from[i].position;
        to[i].bytes = from[i].n_bytes;
        list[i] = &to[i];
    }
}

size_t chance_pack_reply(const struct ps_data_reply *reply, uint8_t *to)
{
    Ps__V1__SlotReply push[CHANCE_SLOTS_MAX];
    Ps__V1__SlotReply *push_list[CHANCE_SLOTS_MAX];
    Ps__V1__SlotReply pull[CHANCE_SLOTS_MAX];
    Ps__V1__SlotReply *pull_list[CHANCE_SLOTS_MAX];
    twin_replies(reply->push, reply->n_push, push, push_list);
    twin_replies(reply->pull, reply->n_pull, pull, pull_list);
    Ps__V1__PullReply twin = PS__V1__PULL_REPLY__INIT;
    twin.n_slots = reply->n_push;
    twin.slots = push_list;
    twin.term = reply->term;
    twin.min_clock = reply->min_clock;
    twin.retry_ms = reply->retry_ms;
    twin.n_pull_slots = reply->n_pull;
    twin.pull_slots = pull_list;
    twin.payload = borrowed(chance_payload(), reply->n_payload_bytes);
    ck_assert(ps__v1__pull_reply__get_packed_size(&twin) <= CHANCE_BYTES_MAX);
    return ps__v1__pull_reply__pack(&twin, to);
}

/* ---- Comparisons ---------------------------------------------------------------------------- */

static void same_share(const struct ps_share *want, const struct ps_share *got)
{
    ck_assert_uint_eq(want->n_slots, got->n_slots);
    ck_assert_uint_eq(want->n_parts, got->n_parts);
    for (uint32_t i = 0; i < want->n_slots; i++) {
        const struct ps_slot_part *a = &want->slots[i];
        const struct ps_slot_part *b = &got->slots[i];
        ck_assert_uint_eq(a->slot, b->slot);
        ck_assert_uint_eq(a->fragment, b->fragment);
        ck_assert_uint_eq(a->n_fragments, b->n_fragments);
        ck_assert_uint_eq(a->first_part, b->first_part);
        ck_assert_uint_eq(a->n_parts, b->n_parts);
        ck_assert_uint_eq(a->epoch, b->epoch);
        ck_assert_uint_eq(a->seen_epoch, b->seen_epoch);
        ck_assert_uint_eq(a->seen_position, b->seen_position);
    }
    ck_assert_mem_eq(want->parts, got->parts, want->n_parts * sizeof(want->parts[0]));
}

static void same_payload(struct ps_cursor got, uint64_t n_bytes)
{
    static uint8_t flat[CHANCE_BYTES_MAX];
    ck_assert_uint_eq(got.n_left, n_bytes);
    ps_cursor_copy(&got, flat, n_bytes);
    ck_assert_mem_eq(flat, chance_payload(), n_bytes);
}

void chance_same_request(const struct ps_data_request *want, const struct ps_data_request *got)
{
    ck_assert(ps_id_equal(&want->session, &got->session));
    ck_assert_uint_eq(want->session_number, got->session_number);
    ck_assert_uint_eq(want->stream, got->stream);
    ck_assert_uint_eq(want->sequence, got->sequence);
    ck_assert_uint_eq(want->acked_below, got->acked_below);
    ck_assert_uint_eq(want->step, got->step);
    ck_assert_uint_eq(want->rows, got->rows);
    ck_assert(want->rate == got->rate);
    ck_assert_uint_eq(want->generation, got->generation);
    ck_assert_uint_eq(want->read_clock, got->read_clock);
    ck_assert_uint_eq(want->pull_step, got->pull_step);
    ck_assert_int_eq(want->no_clock, got->no_clock);
    same_share(&want->push, &got->push);
    same_share(&want->pull, &got->pull);
    ck_assert_uint_eq(want->n_payload_bytes, got->n_payload_bytes);
    same_payload(got->payload, want->n_payload_bytes);
}

static void same_replies(const struct ps_slot_reply *want, const struct ps_slot_reply *got,
                         uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_uint_eq(want[i].slot, got[i].slot);
        ck_assert_int_eq(want[i].status, got[i].status);
        ck_assert_uint_eq(want[i].epoch, got[i].epoch);
        ck_assert_uint_eq(want[i].position, got[i].position);
        ck_assert_uint_eq(want[i].n_bytes, got[i].n_bytes);
    }
}

void chance_same_reply(const struct ps_data_reply *want, const struct ps_data_reply *got)
{
    ck_assert_uint_eq(want->term, got->term);
    ck_assert_uint_eq(want->min_clock, got->min_clock);
    ck_assert_uint_eq(want->retry_ms, got->retry_ms);
    ck_assert_uint_eq(want->n_push, got->n_push);
    ck_assert_uint_eq(want->n_pull, got->n_pull);
    same_replies(want->push, got->push, want->n_push);
    same_replies(want->pull, got->pull, want->n_pull);
    ck_assert_uint_eq(want->n_payload_bytes, got->n_payload_bytes);
    same_payload(got->payload, want->n_payload_bytes);
}
