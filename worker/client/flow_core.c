/* flow_core.c — see flow_core.h. */
#include "client/flow_core.h"

#include <string.h>

#include "base/assert.h"
#include "num/dtype.h"

PS_STATIC_ASSERT(PS_SLOTS <= UINT8_MAX && PS_FRAGMENTS_MAX <= UINT8_MAX,
                 "slot and fragment fit struct ps_flow_unit");
PS_STATIC_ASSERT(PS_SLOTS *PS_FRAGMENTS_MAX <= UINT16_MAX, "units fit struct ps_flow_call");

/* Where the rows of a slot begin: in its last fragment of blocks, behind those that are sent. */
static struct ps_flow_cut cut_slot(struct ps_layout_view view, const bool *chosen,
                                   const struct ps_flow_rows *rows, uint32_t slot,
                                   uint32_t n_fragments)
{
    struct ps_flow_cut cut = {
        .rows = rows, .slot = slot, .fragment = n_fragments > 0 ? n_fragments - 1 : 0};
    struct ps_layout_walk walk = ps_layout_walk_fragment(view, slot, cut.fragment);
    struct ps_layout_part part;
    while (ps_layout_walk_next(&walk, &part)) {
        if (chosen[part.table]) {
            cut.n_bytes += part.n_floats * sizeof(float);
        }
    }
    return cut;
}

struct ps_flow_size ps_flow_size(struct ps_layout_view view, const bool *chosen,
                                 const struct ps_flow_rows *rows)
{
    struct ps_flow_size size = {0};
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        uint32_t n_fragments = ps_layout_slot_fragments(view, slot);
        size.n_units += n_fragments;
        if (rows == NULL) {
            continue;
        }
        struct ps_flow_cut cut = cut_slot(view, chosen, rows, slot, n_fragments);
        struct ps_flow_run run;
        bool any = false;
        while (ps_flow_cut_next(&cut, &run)) {
            size.n_runs++;
            any = true;
        }
        size.n_units += any ? cut.fragment + 1 - n_fragments : 0; /* It is at least that. */
    }
    return size;
}

/* The unit of a fragment: the last one, or a new one behind it. */
static struct ps_flow_unit *unit_for(struct ps_flow *flow, uint32_t slot, uint32_t fragment)
{
    const struct ps_flow_unit *last = &flow->units[flow->n_units > 0 ? flow->n_units - 1 : 0];
    if (flow->n_units == 0 || last->slot != slot || last->fragment != fragment) {
        flow->units[flow->n_units++] = (struct ps_flow_unit){
            .slot = (uint8_t)slot, .fragment = (uint8_t)fragment, .state = PS_FLOW_WAITING};
    }
    return &flow->units[flow->n_units - 1];
}

/* Append the rows of one slot; it may have more fragments then. False: too many. */
static bool add_rows(struct ps_flow *flow, uint32_t slot, uint32_t *n_fragments)
{
    struct ps_flow_rows *rows = flow->rows;
    struct ps_flow_cut cut = cut_slot(flow->view, flow->chosen, rows, slot, *n_fragments);
    struct ps_flow_run run;
    while (ps_flow_cut_next(&cut, &run)) {
        if (cut.fragment >= PS_FRAGMENTS_MAX) {
            return false;
        }
        struct ps_flow_unit *unit = unit_for(flow, slot, cut.fragment);
        unit->first_run = unit->n_runs == 0 ? rows->n_runs : unit->first_run;
        unit->n_runs++;
        unit->n_parts++;
        unit->n_bytes += ps_flow_run_bytes(rows, &run);
        rows->runs[rows->n_runs++] = run;
        *n_fragments = cut.fragment >= *n_fragments ? cut.fragment + 1 : *n_fragments;
    }
    return true;
}

/* Append the units of one slot that hold anything of a chosen table. */
static void add_blocks(struct ps_flow *flow, uint32_t slot)
{
    struct ps_layout_walk walk = ps_layout_walk_slot(flow->view, slot);
    struct ps_layout_part part;
    while (ps_layout_walk_next(&walk, &part)) {
        if (!flow->chosen[part.table]) {
            continue;
        }
        struct ps_flow_unit *unit = unit_for(flow, slot, part.fragment);
        unit->n_parts++;
        unit->n_bytes += part.n_floats * (uint32_t)sizeof(float);
    }
}

/* All units of a slot; false: too many. */
static bool add_slot(struct ps_flow *flow, uint32_t slot)
{
    uint32_t first = flow->n_units;
    uint32_t n_fragments = ps_layout_slot_fragments(flow->view, slot);
    if (n_fragments > PS_FRAGMENTS_MAX) {
        return false;
    }
    add_blocks(flow, slot);
    if (flow->rows != NULL && !add_rows(flow, slot, &n_fragments)) {
        return false;
    }
    for (uint32_t i = first; i < flow->n_units; i++) {
        flow->units[i].n_fragments = (uint8_t)n_fragments;
    }
    return true;
}

bool ps_flow_begin(struct ps_flow *flow, enum ps_flow_kind kind, struct ps_layout_view view,
                   const bool *chosen, struct ps_flow_rows *rows, struct ps_flow_unit *units)
{
    PS_ASSERT(view.n_tables <= PS_TABLES_MAX);
    *flow = (struct ps_flow){.kind = kind, .view = view, .rows = rows, .units = units};
    if (rows != NULL) {
        rows->n_runs = 0;
    }
    memcpy(flow->chosen, chosen, view.n_tables * sizeof(*chosen));
    for (uint32_t slot = 0; slot < PS_SLOTS; slot++) {
        if (!add_slot(flow, slot)) {
            return false;
        }
    }
    return true;
}

void ps_flow_weigh(struct ps_flow *flow)
{
    PS_ASSERT(flow->kind == PS_FLOW_PUSH);
    for (uint32_t i = 0; i < flow->n_units; i++) {
        struct ps_flow_unit *unit = &flow->units[i];
        for (uint32_t r = 0; r < unit->n_runs; r++) {
            unit->n_bytes += flow->rows->runs[unit->first_run + r].n_key_bytes;
        }
    }
}

void ps_flow_open(struct ps_flow *flow)
{
    PS_ASSERT(flow->kind == PS_FLOW_PULL);
    memset(flow->gates, PS_FLOW_OPEN, sizeof(flow->gates));
}

/* Append the runs of a unit whose tables are below `table`; how many parts there are then. */
static uint32_t add_runs(const struct ps_flow *flow, const struct ps_flow_unit *unit,
                         uint32_t *next_run, uint32_t table, struct ps_flow_part *parts,
                         uint32_t n_parts)
{
    for (; *next_run < unit->n_runs; (*next_run)++) {
        const struct ps_flow_run *run = &flow->rows->runs[unit->first_run + *next_run];
        uint32_t of = flow->rows->tables[run->nth].table;
        if (of >= table) {
            break;
        }
        PS_ASSERT(n_parts < PS_CALL_PARTS_MAX);
        parts[n_parts++] = (struct ps_flow_part){.table = of, .run = run};
    }
    return n_parts;
}

uint32_t ps_flow_parts(const struct ps_flow *flow, const struct ps_flow_unit *unit,
                       struct ps_flow_part *parts)
{
    struct ps_layout_walk walk = ps_layout_walk_fragment(flow->view, unit->slot, unit->fragment);
    struct ps_layout_part at;
    uint32_t next_run = 0;
    uint32_t n_parts = 0;
    while (n_parts < unit->n_parts && ps_layout_walk_next(&walk, &at) &&
           at.fragment == unit->fragment) {
        if (flow->chosen[at.table]) {
            n_parts = add_runs(flow, unit, &next_run, at.table, parts, n_parts);
            parts[n_parts++] = (struct ps_flow_part){
                .table = at.table, .block = at.block, .n_floats = at.n_floats};
        }
    }
    n_parts = add_runs(flow, unit, &next_run, PS_TABLES_MAX, parts, n_parts);
    PS_ASSERT(n_parts == unit->n_parts);
    return n_parts;
}

bool ps_flow_asks(const struct ps_flow *flow, uint32_t server)
{
    return flow->kind == PS_FLOW_PULL && flow->gates[server] == PS_FLOW_SHUT;
}

static void send_unit(struct ps_flow *flow, uint32_t index, struct ps_flow_call *call)
{
    struct ps_flow_unit *unit = &flow->units[index];
    PS_ASSERT(unit->state == PS_FLOW_WAITING);
    unit->state = PS_FLOW_SENT;
    flow->n_sent++;
    call->units[call->n_units++] = (uint16_t)index;
    call->n_bytes += unit->n_bytes;
}

static bool gate_passable(const struct ps_flow *flow, uint32_t server, uint64_t now_ms)
{
    if (flow->kind != PS_FLOW_PULL || flow->gates[server] == PS_FLOW_OPEN) {
        return true;
    }
    return flow->gates[server] == PS_FLOW_SHUT && flow->ask_ms[server] <= now_ms;
}

uint32_t ps_flow_take(struct ps_flow *flow, const struct ps_route *route, uint32_t server,
                      uint64_t now_ms, struct ps_flow_call *ret)
{
    PS_ASSERT(server < PS_SERVERS_MAX);
    *ret = (struct ps_flow_call){.server = server};
    if (!gate_passable(flow, server, now_ms) || flow->failed != PS_OK ||
        flow->n_sent + flow->n_finished == flow->n_units) {
        return 0;
    }
    uint64_t slots = 0; /* Bit set: two fragments of a slot never share a call. */
    uint32_t n_parts = 0;
    for (uint32_t i = 0; i < flow->n_units && ret->n_bytes < PS_CALL_PAYLOAD_BYTES; i++) {
        const struct ps_flow_unit *unit = &flow->units[i];
        bool ready = unit->state == PS_FLOW_WAITING && unit->ready_ms <= now_ms &&
                     route->server[unit->slot] == server && (slots & 1ull << unit->slot) == 0;
        if (ready && n_parts + unit->n_parts <= PS_CALL_PARTS_MAX) {
            slots |= 1ull << unit->slot;
            n_parts += unit->n_parts;
            send_unit(flow, i, ret);
        }
    }
    if (ret->n_units > 0 && ps_flow_asks(flow, server)) {
        ret->asks = true;
        flow->gates[server] = PS_FLOW_ASKING;
    }
    return ret->n_units;
}

uint32_t ps_flow_take_same(struct ps_flow *flow, const struct ps_flow *other,
                           const struct ps_flow_call *call, struct ps_flow_call *ret)
{
    *ret = (struct ps_flow_call){.server = call->server};
    if (flow->failed != PS_OK) {
        return 0;
    }
    uint32_t n_parts = 0;
    uint32_t at = 0; /* Both lists are ordered by slot and fragment. */
    for (uint32_t i = 0; i < call->n_units; i++) {
        const struct ps_flow_unit *want = &other->units[call->units[i]];
        while (at < flow->n_units &&
               (flow->units[at].slot < want->slot || (flow->units[at].slot == want->slot &&
                                                      flow->units[at].fragment < want->fragment))) {
            at++;
        }
        if (at == flow->n_units) {
            break;
        }
        const struct ps_flow_unit *unit = &flow->units[at];
        bool same = unit->slot == want->slot && unit->fragment == want->fragment;
        /* The gradient of a row that is asked for may be in another fragment of the push. */
        bool apart = unit->n_runs > 0 && want->n_fragments > 1;
        if (same && !apart && unit->state == PS_FLOW_WAITING &&
            ret->n_bytes < PS_CALL_PAYLOAD_BYTES && n_parts + unit->n_parts <= PS_CALL_PARTS_MAX) {
            n_parts += unit->n_parts;
            send_unit(flow, at, ret);
        }
    }
    return ret->n_units;
}

static struct ps_part wire_part(const struct ps_flow *flow, const struct ps_flow_part *part,
                                bool push)
{
    struct ps_part ret = {.table = part->table,
                          .block = part->block,
                          .dtype = PS_DTYPE_F32,
                          .codec = PS_CODEC_RAW,
                          .n_bytes = push ? part->n_floats * (uint32_t)sizeof(float) : 0};
    if (part->run != NULL) {
        ret.n_keys = part->run->n;
        ret.n_key_bytes = part->run->n_key_bytes;
        ret.n_bytes = push ? ret.n_key_bytes + ps_flow_run_bytes(flow->rows, part->run) : 0;
    }
    return ret;
}

void ps_flow_fill(const struct ps_flow *flow, const struct ps_route *route,
                  const struct ps_flow_call *call, struct ps_share *ret)
{
    struct ps_flow_part parts[PS_CALL_PARTS_MAX];
    ret->n_slots = 0;
    ret->n_parts = 0;
    for (uint32_t i = 0; i < call->n_units; i++) {
        const struct ps_flow_unit *unit = &flow->units[call->units[i]];
        uint32_t n_parts = ps_flow_parts(flow, unit, parts);
        PS_ASSERT(ret->n_parts + n_parts <= PS_CALL_PARTS_MAX);
        struct ps_slot_part *slot = &ret->slots[ret->n_slots++];
        *slot = (struct ps_slot_part){.slot = unit->slot,
                                      .first_part = ret->n_parts,
                                      .n_parts = n_parts,
                                      .epoch = route->epoch[unit->slot],
                                      .seen_epoch = route->seen_epoch[unit->slot],
                                      .seen_position = route->seen_position[unit->slot]};
        bool push = flow->kind == PS_FLOW_PUSH;
        if (push) { /* A pull's answer does not depend on the cut. */
            slot->fragment = unit->fragment;
            slot->n_fragments = unit->n_fragments;
        }
        for (uint32_t p = 0; p < n_parts; p++) {
            ret->parts[ret->n_parts++] = wire_part(flow, &parts[p], push);
        }
    }
}

struct ps_flow_unit *ps_flow_find(const struct ps_flow *flow, const struct ps_flow_call *call,
                                  uint32_t slot)
{
    for (uint32_t i = 0; i < call->n_units; i++) {
        struct ps_flow_unit *unit = &flow->units[call->units[i]];
        if (unit->slot == slot) {
            return unit;
        }
    }
    return NULL;
}

static void finish_unit(struct ps_flow *flow, struct ps_flow_unit *unit)
{
    unit->state = PS_FLOW_FINISHED;
    flow->n_finished++;
}

static void repeat_unit(struct ps_flow_unit *unit, enum ps_status waits_for, uint64_t ready_ms)
{
    unit->state = PS_FLOW_WAITING;
    unit->waits_for = (uint8_t)waits_for;
    unit->ready_ms = ready_ms;
}

bool ps_flow_waits(enum ps_status status)
{
    return ps_status_retryable(status) || status == PS_ERR_LOST;
}

void ps_flow_answer(struct ps_flow *flow, struct ps_flow_unit *unit, enum ps_status status,
                    uint64_t ready_ms)
{
    PS_ASSERT(unit->state == PS_FLOW_SENT);
    flow->n_sent--;
    if (status == PS_OK) {
        finish_unit(flow, unit);
    } else if (status == PS_ERR_LATE && flow->kind == PS_FLOW_PUSH) {
        flow->late = true;
        finish_unit(flow, unit);
    } else if (ps_flow_waits(status)) {
        bool news = status == PS_ERR_NOT_PRIMARY || status == PS_ERR_NOT_YET;
        repeat_unit(unit, news ? status : PS_OK, ready_ms);
    } else {
        repeat_unit(unit, PS_OK, ready_ms);
        ps_flow_fail(flow, status);
    }
}

void ps_flow_end_call(struct ps_flow *flow, const struct ps_flow_call *call, uint64_t ready_ms)
{
    bool answered = false;
    for (uint32_t i = 0; i < call->n_units; i++) {
        struct ps_flow_unit *unit = &flow->units[call->units[i]];
        if (unit->state == PS_FLOW_SENT) {
            flow->n_sent--;
            repeat_unit(unit, PS_OK, ready_ms);
        }
        answered = answered || unit->state == PS_FLOW_FINISHED;
    }
    if (flow->kind != PS_FLOW_PULL) {
        return;
    }
    uint8_t *gate = &flow->gates[call->server];
    if (answered) {
        *gate = PS_FLOW_OPEN;
    } else if (call->asks) {
        *gate = PS_FLOW_SHUT;
        flow->ask_ms[call->server] = ready_ms; /* The other units would fare no better. */
    }
}

static void end_waits(struct ps_flow *flow, enum ps_status waits_for, uint32_t slot)
{
    for (uint32_t i = 0; i < flow->n_units; i++) {
        struct ps_flow_unit *unit = &flow->units[i];
        bool here = slot == PS_SLOTS || unit->slot == slot;
        if (here && unit->state == PS_FLOW_WAITING && unit->waits_for == (uint8_t)waits_for) {
            unit->ready_ms = 0;
        }
    }
    memset(flow->ask_ms, 0, sizeof(flow->ask_ms));
}

void ps_flow_placed(struct ps_flow *flow, uint32_t slot)
{
    PS_ASSERT(slot < PS_SLOTS);
    end_waits(flow, PS_ERR_NOT_PRIMARY, slot);
}

void ps_flow_allowed(struct ps_flow *flow)
{
    end_waits(flow, PS_ERR_NOT_YET, PS_SLOTS);
}

void ps_flow_fail(struct ps_flow *flow, enum ps_status status)
{
    PS_ASSERT(status != PS_OK);
    if (flow->failed == PS_OK) {
        flow->failed = status;
    }
}

bool ps_flow_ended(const struct ps_flow *flow)
{
    return flow->n_sent == 0 && (flow->failed != PS_OK || flow->n_finished == flow->n_units);
}

enum ps_status ps_flow_outcome(const struct ps_flow *flow)
{
    PS_ASSERT(ps_flow_ended(flow));
    if (flow->failed != PS_OK) {
        return flow->failed;
    }
    return flow->late ? PS_ERR_LATE : PS_OK;
}

uint64_t ps_flow_next_ms(const struct ps_flow *flow, uint64_t now_ms)
{
    uint64_t next_ms = UINT64_MAX;
    for (uint32_t i = 0; i < flow->n_units && flow->failed == PS_OK; i++) {
        const struct ps_flow_unit *unit = &flow->units[i];
        if (unit->state == PS_FLOW_WAITING && unit->ready_ms > now_ms && unit->ready_ms < next_ms) {
            next_ms = unit->ready_ms;
        }
    }
    for (uint32_t i = 0; i < PS_SERVERS_MAX && flow->failed == PS_OK; i++) {
        if (flow->ask_ms[i] > now_ms && flow->ask_ms[i] < next_ms) {
            next_ms = flow->ask_ms[i];
        }
    }
    return next_ms;
}
