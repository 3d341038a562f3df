/*
 * coord_stored.c — what outlives a coordinator, as bytes: 32 bits of layout, then the message
 * ps.v1.Stored, which is written as a whole whenever a part of it has changed.
 *
 *   layout 3   0-3 layout, 4- Stored
 *   layout 2   0-3 layout, 4-19 cluster id, 20-27 term, 28-35 generation, 36-43 next session
 *              number, 44-51 key seed, then messages, each behind its length (32 bits), of which
 *              OpenSessions is the first
 *   layout 1   the same without a key seed: nothing was placed by one then, and a new one is taken
 *
 * Layouts 1 and 2 are of clusters that cannot be gone on with: parameters were in memory alone. So
 * are those of layout 3 that do not say `resumable`. Of them a new coordinator keeps cluster id and
 * key seed, counts on, and starts with no members, in the next generation: whoever still knows the
 * job that was lost must not meet the next one's tables under the same name.
 */
#include "coord/coord_stored.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/failpoint.h"
#include "coord/coord_impl.h"
#include "wire/pack.h"

#define LAYOUT           3u
#define SECOND_LAYOUT    2u
#define HEAD_BYTES       52u
#define FIRST_LAYOUT     1u
#define FIRST_HEAD_BYTES 44u

/* ---- Writing ------------------------------------------------------------------------------- */

struct stored_room {
    Ps__V1__Stored stored;
    Ps__V1__StoredMember members[PS_COORD_MEMBERS_MAX];
    Ps__V1__StoredMember *member_list[PS_COORD_MEMBERS_MAX];
    Ps__V1__StoredPlace places[PS_SERVERS_MAX];
    Ps__V1__StoredPlace *place_list[PS_SERVERS_MAX];
    Ps__V1__Placement placement;
    Ps__V1__StoredRestore restore;
};

static void fill_member(const struct ps_coord_member *from, Ps__V1__StoredMember *to)
{
    ps__v1__stored_member__init(to);
    to->number = from->number;
    to->session = coord_bytes(from->session.bytes, sizeof(from->session.bytes));
    to->kind = (Ps__V1__SessionKind)from->kind;
    to->name = coord_text(from->name);
    to->unleased = from->unleased;
    to->opened = from->life.state != PS_MEMBER_JOINING;
    to->closing = from->closing;
    to->opened_version = from->opened_version;
    to->closed_version = from->closed_version;
    to->clock = from->clock;
    to->lease = from->lease;
    to->lease_clock = from->lease_clock;
    to->lease_units = from->lease_units;
    if (from->staged.is) {
        to->staged_step = from->clock + 1;
        to->staged_unit = from->staged.unit;
        to->staged_rows = from->staged.rows;
    }
}

static void fill_members(const struct ps_coord_core *core, struct stored_room *room)
{
    size_t n = 0;
    for (uint32_t i = 0; i < core->n_members; i++) {
        const struct ps_coord_member *member = &core->members[i];
        if (member->used && member->kind != PS_COORD_SERVER &&
            (member->closing || !ps_member_ended(&member->life))) {
            fill_member(member, &room->members[n]);
            room->member_list[n] = &room->members[n];
            n++;
        }
    }
    room->stored.n_members = n;
    room->stored.members = room->member_list;
}

static void fill_places(struct ps_coord_core *core, struct stored_room *room)
{
    if (core->placement.version == 0) {
        return; /* Whoever has joined has nothing yet, and joins again. */
    }
    for (uint32_t i = 0; i < core->options.n_servers; i++) {
        const struct ps_coord_member *member = &core->members[core->servers[i]];
        const struct ps_coord_place *from = &core->places[i];
        Ps__V1__StoredPlace *to = &room->places[i];
        ps__v1__stored_place__init(to);
        to->server = coord_bytes(from->id.bytes, sizeof(from->id.bytes));
        to->incarnation = coord_bytes(member->session.bytes, sizeof(member->session.bytes));
        to->number = member->number;
        to->name = coord_text(member->name);
        to->address = coord_text(member->address);
        to->durability = (Ps__V1__Durability)from->durability;
        to->placed = from->placed;
        to->gone = ps_member_ended(&member->life);
        room->place_list[i] = to;
    }
    room->stored.n_places = core->options.n_servers;
    room->stored.places = room->place_list;
    ps__v1__placement__init(&room->placement);
    room->placement.version = core->placement.version;
    room->placement.n_primary = PS_SLOTS;
    room->placement.primary = core->placement.primary;
    room->placement.n_epoch = PS_SLOTS;
    room->placement.epoch = core->placement.epoch;
    room->stored.placement = &room->placement;
}

static void fill_base(struct ps_coord *coord, struct stored_room *room)
{
    const struct ps_coord_base *base = &coord->core.base;
    if (!base->is) {
        return;
    }
    ps__v1__stored_restore__init(&room->restore);
    room->restore.cut_generation = base->generation;
    room->restore.cut = base->cut;
    room->restore.dir = coord->base_dir;
    room->restore.loaded = base->loaded;
    room->stored.restore = &room->restore;
}

static void fill(struct ps_coord *coord, struct stored_room *room)
{
    struct ps_coord_core *core = &coord->core;
    Ps__V1__Stored *stored = &room->stored;
    ps__v1__stored__init(stored);
    stored->cluster_id = coord_bytes(coord->cluster_id.bytes, sizeof(coord->cluster_id.bytes));
    stored->term = coord->term;
    stored->generation = core->generation;
    stored->key_seed = coord->key_seed;
    stored->next_session_number = core->next_session_number;
    stored->next_cut = core->cut.next;
    stored->sessions_version = core->sessions_version;
    stored->finished_version = core->finished_version;
    stored->n_servers = coord->options.n_servers;
    stored->resumable = coord->options.durable || core->has_cut;
    stored->sessions_lost = core->sessions_lost;
    stored->catalogue = coord_catalogue(coord);
    stored->definition = coord->definition.job;
    stored->n_cuts = coord->n_known;
    stored->cuts = coord->known;
    if (core->close.decided) {
        stored->close = coord_close_step(coord);
    }
    fill_members(core, room);
    fill_places(core, room);
    fill_base(coord, room);
}

static enum ps_status write(struct ps_coord *coord, const Ps__V1__Stored *stored,
                            struct ps_error *err)
{
    size_t n_bytes = 4 + ps__v1__stored__get_packed_size(stored);
    if (n_bytes > PS_STORE_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "the coordinator's state has grown to %zu bytes",
                       n_bytes);
    }
    uint8_t *data = ps_mem_alloc(coord->options.mem, PS_MEM_OTHER, n_bytes);
    if (data == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to write the coordinator's state");
    }
    ps_store_u32(data, LAYOUT);
    (void)ps__v1__stored__pack(stored, data + 4);
    ps_failpoint("store.before_write");
    enum ps_status status =
        ps_store_write(coord->options.store, &coord->stamp, coord->term, data, n_bytes, err);
    ps_failpoint("store.after_write");
    ps_mem_free(data);
    return status;
}

enum ps_status coord_store(struct ps_coord *coord, struct ps_error *err)
{
    struct coord_progress_room *progress = NULL;
    struct stored_room *room = ps_mem_alloc(coord->options.mem, PS_MEM_OTHER, sizeof(*room));
    if (room == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to write the coordinator's state");
    }
    enum ps_status status = coord_progress_make(coord, &progress, err);
    if (status == PS_OK) {
        fill(coord, room);
        room->stored.progress = progress != NULL ? &progress->progress : NULL;
        status = write(coord, &room->stored, err);
    }
    coord_progress_free(progress);
    ps_mem_free(room);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------- */

static enum ps_status unreadable(struct ps_error *err)
{
    return ps_fail(err, PS_ERR_CORRUPT,
                   "the coordinator's store holds a state that this build cannot read");
}

/* Version of the list of sessions, so that ours are higher. The part was checked with the whole. */
static uint64_t old_sessions_version(struct ps_coord *coord, const uint8_t *part, size_t n_bytes)
{
    struct ps_slice slice = {.data = part, .n_bytes = n_bytes};
    ProtobufCMessage *message =
        ps_wire_unpack(&ps__v1__open_sessions__descriptor, &slice, 1, coord->options.mem);
    uint64_t version = message != NULL ? ((const Ps__V1__OpenSessions *)message)->version : 0;
    ps_wire_unpacked_free(message);
    return version;
}

static enum ps_status read_old(struct ps_coord *coord, const uint8_t *data, size_t n_bytes,
                               struct ps_coord_core_options *ret_first, struct ps_error *err)
{
    bool first = ps_load_u32(data) == FIRST_LAYOUT;
    size_t n_head = first ? FIRST_HEAD_BYTES : HEAD_BYTES;
    if (n_bytes < n_head + 4 || ps_load_u32(data + n_head) > n_bytes - n_head - 4) {
        return unreadable(err);
    }
    memcpy(coord->cluster_id.bytes, data + 4, sizeof(coord->cluster_id.bytes));
    ret_first->generation = 1 + ps_load_u64(data + 28);
    ret_first->first_session_number = ps_load_u64(data + 36);
    coord->key_seed = first ? coord->key_seed : ps_load_u64(data + 44);
    ret_first->first_sessions_version =
        1 + old_sessions_version(coord, data + n_head + 4, ps_load_u32(data + n_head));
    return PS_OK;
}

static enum ps_status read_stored(struct ps_coord *coord, const uint8_t *data, size_t n_bytes,
                                  struct ps_coord_core_options *ret_first, struct ps_error *err)
{
    struct ps_slice slice = {.data = data + 4, .n_bytes = n_bytes - 4};
    enum ps_status why;
    ProtobufCMessage *message =
        ps_wire_unpack_why(&ps__v1__stored__descriptor, &slice, 1, coord->options.mem, &why);
    if (message == NULL) {
        return why == PS_ERR_NOMEM
                   ? ps_fail(err, PS_ERR_NOMEM, "no memory to read the coordinator's store")
                   : unreadable(err);
    }
    Ps__V1__Stored *stored = (Ps__V1__Stored *)message;
    coord->resumes = stored;
    if (!ps_id_from(stored->cluster_id.data, stored->cluster_id.len, &coord->cluster_id) ||
        stored->generation == 0 || stored->next_session_number == 0 || stored->next_cut == 0) {
        return unreadable(err);
    }
    coord->key_seed = stored->key_seed;
    ret_first->generation = stored->generation;
    ret_first->first_session_number = stored->next_session_number;
    ret_first->first_sessions_version = 1 + stored->sessions_version;
    ret_first->first_cut = stored->next_cut;
    if (!stored->resumable) {
        ret_first->generation++;
        coord_resume_forget(coord);
    }
    return PS_OK;
}

enum ps_status coord_take_term(struct ps_coord *coord, struct ps_coord_core_options *ret_first,
                               struct ps_error *err)
{
    uint8_t *data = NULL;
    size_t n_bytes = 0;
    enum ps_status status =
        ps_store_load(coord->options.store, &data, &n_bytes, &coord->stamp, err);
    if (status != PS_OK) {
        return status;
    }
    coord->cluster_id = coord->options.new_cluster_id;
    coord->key_seed = coord->options.new_key_seed;
    coord->term = coord->stamp.term + 1;
    ret_first->generation = 1;
    ret_first->first_session_number = 1;
    ret_first->first_sessions_version = 0;
    ret_first->first_cut = 1;
    ret_first->term = coord->term;
    if (data == NULL) {
        return PS_OK;
    }
    uint32_t layout = n_bytes >= 4 ? ps_load_u32(data) : 0;
    if (layout == LAYOUT) {
        status = read_stored(coord, data, n_bytes, ret_first, err);
    } else if (layout == FIRST_LAYOUT || layout == SECOND_LAYOUT) {
        status = read_old(coord, data, n_bytes, ret_first, err);
    } else {
        status = unreadable(err);
    }
    ps_mem_free(data);
    return status;
}
