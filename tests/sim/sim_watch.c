/* sim_watch.c — see sim_watch.h. */
#include "sim/sim_watch.h"

#include <inttypes.h>
#include <string.h>

#include "base/slice.h"

/* Field numbers of proto/ps/v1/parameter_server.proto. */
enum reply_field {
    REPLY_STATUS = 1, /* Of a scan. */
    REPLY_SLOTS = 1,  /* Of a push; of a Pull: of the pull. */
    REPLY_MIN_CLOCK = 3,
    REPLY_PULL_SLOTS = 5
};
enum slot_field {
    SLOT_NUMBER = 1,
    SLOT_STATUS = 2,
    SLOT_EPOCH = 3,
    SLOT_POSITION = 4
};

/* Of proto/ps/v1/coordinator.proto. */
enum coordinator_field {
    JOIN_REPLY_GENERATION = 5,
    STATE_GENERATION = 2,
    STATE_CUT = 17,
    STATE_RESTORE = 18,
    STATE_CUT_KEPT = 19,
    CUT_NUMBER = 1,
    RESTORE_GENERATION = 1,
    RESTORE_CUT_GENERATION = 2,
    RESTORE_CUT = 3
};

#define STATUS_OK 0u

/* ---- Heights ------------------------------------------------------------------------------- */

static void note(struct sim_heights *heights, uint64_t at_ns, uint64_t epoch, uint64_t value)
{
    if (heights->n > 0) {
        uint32_t top = heights->n - 1;
        uint64_t top_epoch = heights->kept[top].epoch;
        uint64_t top_value = heights->kept[top].value;
        if (epoch <= top_epoch && value <= top_value) {
            return;
        }
        epoch = epoch > top_epoch ? epoch : top_epoch;
        value = value > top_value ? value : top_value;
    }
    if (heights->n == SIM_WATCH_KEPT) {
        memmove(&heights->kept[0], &heights->kept[1],
                (SIM_WATCH_KEPT - 1) * sizeof(heights->kept[0]));
        heights->n--;
    }
    heights->kept[heights->n].at_ns = at_ns;
    heights->kept[heights->n].epoch = epoch;
    heights->kept[heights->n].value = value;
    heights->n++;
}

/* True when something higher was heard before `before_ns`. */
static bool below(const struct sim_heights *heights, uint64_t before_ns, uint64_t epoch,
                  uint64_t value)
{
    for (uint32_t i = heights->n; i > 0; i--) {
        if (heights->kept[i - 1].at_ns < before_ns) {
            return epoch < heights->kept[i - 1].epoch || value < heights->kept[i - 1].value;
        }
    }
    return false;
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* One protobuf field: a number in `*ret_value`, or bytes in `*ret_bytes`. False at the end. */
static bool next_field(struct ps_cursor *cursor, uint32_t *ret_number, uint64_t *ret_value,
                       struct ps_cursor *ret_bytes)
{
    if (cursor->n_left == 0 || cursor->failed) {
        return false;
    }
    uint64_t tag = ps_cursor_varint(cursor);
    *ret_number = (uint32_t)(tag >> 3);
    *ret_value = 0;
    switch (tag & 7) {
    case 0: *ret_value = ps_cursor_varint(cursor); break;
    case 1: ps_cursor_skip(cursor, 8); break;
    case 2: *ret_bytes = ps_cursor_split(cursor, ps_cursor_varint(cursor)); break;
    case 5: ps_cursor_skip(cursor, 4); break;
    default: cursor->failed = true; break;
    }
    return !cursor->failed;
}

/* True when it is a slot that was read. */
static bool see_slot(struct sim_watch *watch, const struct sim_reply *reply,
                     struct ps_cursor cursor, bool pull)
{
    uint64_t fields[SLOT_POSITION + 1] = {0};
    uint32_t number;
    uint64_t value;
    struct ps_cursor bytes;
    while (next_field(&cursor, &number, &value, &bytes)) {
        if (number <= SLOT_POSITION) {
            fields[number] = value;
        }
    }
    uint64_t slot = fields[SLOT_NUMBER];
    if (slot >= SIM_WATCH_SLOTS || fields[SLOT_STATUS] != STATUS_OK) {
        return false;
    }
    struct sim_heights *heights = &watch->slots[slot];
    if (pull && !watch->ledger->damaged &&
        below(heights, reply->began_ns, fields[SLOT_EPOCH], fields[SLOT_POSITION])) {
        sim_break(watch->world,
                  "%s was told epoch %" PRIu64 " position %" PRIu64 " of slot %" PRIu64
                  ", less than was known before it asked",
                  reply->caller->name, fields[SLOT_EPOCH], fields[SLOT_POSITION], slot);
    }
    note(heights, watch->world->now_ns, fields[SLOT_EPOCH], fields[SLOT_POSITION]);
    return pull;
}

/* ---- Generations --------------------------------------------------------------------------- */

bool sim_watch_void(const struct sim_watch *watch, const struct sim_node *node)
{
    return watch->joined_as[node->number] < watch->generation;
}

/* The first fields of a message that are numbers, by field number. */
static void read_numbers(struct ps_cursor cursor, uint64_t *fields, uint32_t n_fields)
{
    uint32_t number;
    uint64_t value;
    struct ps_cursor bytes;
    memset(fields, 0, n_fields * sizeof(*fields));
    while (next_field(&cursor, &number, &value, &bytes)) {
        if (number < n_fields) {
            fields[number] = value;
        }
    }
}

static struct sim_cut_heard *find_cut(struct sim_watch *watch, uint64_t generation, uint64_t cut)
{
    for (uint32_t i = 0; i < SIM_WATCH_CUTS; i++) {
        struct sim_cut_heard *at = &watch->cuts[i];
        if (at->cut == cut && at->generation == generation && at->at_ns > 0) {
            return at;
        }
    }
    return NULL;
}

static void hear_cut(struct sim_watch *watch, uint64_t generation, uint64_t cut)
{
    if (cut > 0 && find_cut(watch, generation, cut) == NULL) {
        watch->cuts[watch->n_cuts++ % SIM_WATCH_CUTS] =
            (struct sim_cut_heard){generation, cut, watch->world->now_ns};
        sim_trace(watch->world, NULL, "cut ordered", "generation, cut", generation, cut);
    }
}

static void begin_generation(struct sim_watch *watch, uint64_t generation, uint64_t taken_ns)
{
    watch->generation = generation;
    watch->kept = 0;
    memset(watch->slots, 0, sizeof(watch->slots));
    memset(watch->clocks, 0, sizeof(watch->clocks));
    sim_ledger_back(watch->ledger, taken_ns);
}

static void hear_restore(struct sim_watch *watch, const uint64_t *fields)
{
    uint64_t generation = fields[RESTORE_GENERATION];
    if (generation <= watch->generation) {
        return;
    }
    const struct sim_cut_heard *cut =
        find_cut(watch, fields[RESTORE_CUT_GENERATION], fields[RESTORE_CUT]);
    if (cut == NULL) {
        sim_break(watch->world, "the job goes back to a cut that nobody was told to take");
        return;
    }
    begin_generation(watch, generation, cut->at_ns);
}

/*
 * A coordinator that comes back with nothing, to servers that have nothing, begins anew: where
 * nothing outlives a process, and no cut was kept.
 */
static bool may_begin_anew(const struct sim_watch *watch)
{
    const struct sim_plan *plan = watch->ledger->plan;
    return plan->durable && plan->durability == PS_DURABILITY_MEMORY &&
           watch->coordinates->n_lives > 1 && watch->kept == 0;
}

static void see_state(struct sim_watch *watch, struct ps_cursor cursor)
{
    uint32_t number;
    uint64_t value;
    struct ps_cursor bytes;
    uint64_t generation = 0;
    uint64_t fields[RESTORE_CUT + 1];
    while (next_field(&cursor, &number, &value, &bytes)) {
        if (number == STATE_GENERATION) {
            generation = value;
        } else if (number == STATE_CUT) {
            read_numbers(bytes, fields, PS_ARRAY_LEN(fields));
            hear_cut(watch, generation, fields[CUT_NUMBER]);
        } else if (number == STATE_RESTORE) {
            read_numbers(bytes, fields, PS_ARRAY_LEN(fields));
            hear_restore(watch, fields);
        } else if (number == STATE_CUT_KEPT && generation == watch->generation) {
            watch->kept = value;
        }
    }
}

static void see_join(struct sim_watch *watch, const struct sim_reply *reply,
                     struct ps_cursor cursor)
{
    uint64_t fields[JOIN_REPLY_GENERATION + 1];
    read_numbers(cursor, fields, PS_ARRAY_LEN(fields));
    uint64_t generation = fields[JOIN_REPLY_GENERATION];
    watch->joined_as[reply->caller->number] = generation;
    if (strncmp(reply->caller->name, "server", 6) == 0) {
        return; /* Its order comes next. */
    }
    if (watch->generation == 0) {
        watch->generation = generation;
    } else if (generation > watch->generation && may_begin_anew(watch)) {
        watch->n_anew++;
        sim_trace(watch->world, NULL, "begins anew", "generation", generation, 0);
        begin_generation(watch, generation, 0);
    } else if (generation > watch->generation) {
        sim_break(watch->world, "%s joined generation %" PRIu64 ", for which no server has loaded",
                  reply->caller->name, generation);
    }
}

static bool see_coordinator(struct sim_watch *watch, const struct sim_reply *reply)
{
    struct ps_cursor cursor = ps_cursor_over(reply->msg->slices, reply->msg->n_slices);
    if (strcmp(reply->method, "/ps.v1.Coordinator/Join") == 0) {
        see_join(watch, reply, cursor);
    } else if (strcmp(reply->method, "/ps.v1.Coordinator/Attend") == 0) {
        see_state(watch, cursor);
    }
    return strncmp(reply->method, "/ps.v1.ParameterServer/", 23) != 0;
}

static void see(void *arg, const struct sim_reply *reply)
{
    struct sim_watch *watch = arg;
    if (see_coordinator(watch, reply) || sim_watch_void(watch, reply->caller)) {
        return;
    }
    bool pull = strcmp(reply->method, "/ps.v1.ParameterServer/Pull") == 0;
    bool scan = strcmp(reply->method, "/ps.v1.ParameterServer/Scan") == 0;
    if (reply->server == NULL) {
        return;
    }
    struct ps_cursor cursor = ps_cursor_over(reply->msg->slices, reply->msg->n_slices);
    uint64_t min_clock = 0;
    bool read = scan; /* Else the reply carries no min clock. */
    uint32_t number;
    uint64_t value;
    struct ps_cursor bytes;
    watch->n_replies++;
    while (next_field(&cursor, &number, &value, &bytes)) {
        if (number == REPLY_MIN_CLOCK) {
            min_clock = value;
        } else if (scan) { /* It has no slots, and says nothing of its own. */
            read = read && (number != REPLY_STATUS || value == STATUS_OK);
        } else if (number == REPLY_PULL_SLOTS) {
            read = see_slot(watch, reply, bytes, true) || read;
        } else if (number == REPLY_SLOTS) {
            read = see_slot(watch, reply, bytes, pull) || read;
        }
    }
    if (cursor.failed) {
        sim_break(watch->world, "%s got a reply to %s that is no protobuf message",
                  reply->caller->name, reply->method);
    }
    bool trains = strncmp(reply->caller->name, "worker", 6) == 0;
    if (!read || (trains && watch->ledger->plan->n_lanes > 1)) {
        return; /* Who trains hears the clocks of the lanes that it read from. */
    }
    struct sim_heights *clocks = &watch->clocks[reply->server->number];
    if (below(clocks, reply->began_ns, 0, min_clock)) {
        sim_break(watch->world, "min clock of %s went back to %" PRIu64, reply->server->name,
                  min_clock);
    }
    note(clocks, watch->world->now_ns, 0, min_clock);
}

void sim_watch_start(struct sim_watch *watch, struct sim_world *world, struct sim_net *net,
                     struct sim_ledger *ledger)
{
    *watch = (struct sim_watch){.world = world, .ledger = ledger};
    sim_net_tap(net, see, watch);
}
