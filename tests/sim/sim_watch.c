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

#define STATUS_OK 0u

/* ---- Heights ------------------------------------------------------------------------------- */

static void note(struct sim_heights *heights, uint64_t at_ns, uint64_t epoch, uint64_t value)
{
    if (heights->n > 0) {
        uint32_t top = heights->n - 1;
        uint64_t top_epoch = heights->kept[top].epoch;
        if (epoch < top_epoch || (epoch == top_epoch && value <= heights->kept[top].value)) {
            return;
        }
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
            uint64_t known = heights->kept[i - 1].epoch;
            return epoch < known || (epoch == known && value < heights->kept[i - 1].value);
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
    if (pull && below(heights, reply->began_ns, fields[SLOT_EPOCH], fields[SLOT_POSITION])) {
        sim_break(watch->world,
                  "%s was told epoch %" PRIu64 " position %" PRIu64 " of slot %" PRIu64
                  ", less than was known before it asked",
                  reply->caller->name, fields[SLOT_EPOCH], fields[SLOT_POSITION], slot);
    }
    note(heights, watch->world->now_ns, fields[SLOT_EPOCH], fields[SLOT_POSITION]);
    return pull;
}

static void see(void *arg, const struct sim_reply *reply)
{
    struct sim_watch *watch = arg;
    bool pull = strcmp(reply->method, "/ps.v1.ParameterServer/Pull") == 0;
    bool scan = strcmp(reply->method, "/ps.v1.ParameterServer/Scan") == 0;
    if (strncmp(reply->method, "/ps.v1.ParameterServer/", 23) != 0 || reply->server == NULL) {
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
    if (!read) {
        return;
    }
    struct sim_heights *clocks = &watch->clocks[reply->server->number];
    if (below(clocks, reply->began_ns, 0, min_clock)) {
        sim_break(watch->world, "min clock of %s went back to %" PRIu64, reply->server->name,
                  min_clock);
    }
    note(clocks, watch->world->now_ns, 0, min_clock);
}

void sim_watch_start(struct sim_watch *watch, struct sim_world *world, struct sim_net *net)
{
    *watch = (struct sim_watch){.world = world};
    sim_net_tap(net, see, watch);
}
