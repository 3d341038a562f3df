/*
 * coord_stored.c — what outlives a coordinator, as bytes: a head, then messages, each behind its
 * length (32 bits).
 *
 *   0-3    layout, 2              20-27  term                44-51  key seed
 *   4-19   cluster id             28-35  generation          52-    OpenSessions, Placement,
 *                                 36-43  next session number        Catalogue, JobDefinition,
 *                                                                   FinishedLeases
 *
 * Layout 1 had no key seed: nothing was placed by one then, and a new one is taken.
 *
 * A new coordinator keeps the cluster id, the key seed and the generation, counts on, and starts
 * with no members: with parameters in memory alone, servers that were left behind have nothing that
 * could go on.
 */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "coord/coord_impl.h"
#include "obs/log.h"
#include "wire/pack.h"

#define LAYOUT           2u
#define HEAD_BYTES       52u
#define FIRST_LAYOUT     1u
#define FIRST_HEAD_BYTES 44u

enum {
    SESSIONS,
    PLACEMENT,
    CATALOGUE,
    JOB,
    FINISHED,
    N_PARTS
};

static void put_head(const struct ps_coord *coord, uint8_t *to)
{
    ps_store_u32(to, LAYOUT);
    memcpy(to + 4, coord->cluster_id.bytes, sizeof(coord->cluster_id.bytes));
    ps_store_u64(to + 20, coord->term);
    ps_store_u64(to + 28, coord->generation);
    ps_store_u64(to + 36, coord->core.next_session_number);
    ps_store_u64(to + 44, coord->key_seed);
}

enum ps_status coord_store(struct ps_coord *coord, struct ps_error *err)
{
    const struct ps_coord_core *core = &coord->core;
    const ProtobufCMessage *parts[N_PARTS] = {
        [SESSIONS] = &coord_sessions(coord)->base,
        [PLACEMENT] = core->placement.version != 0 ? &coord_placement(coord)->base : NULL,
        [CATALOGUE] = &coord_catalogue(coord)->base,
        [JOB] = coord->definition.job != NULL ? &coord->definition.job->base : NULL,
        [FINISHED] = &coord_finished(coord)->base,
    };
    size_t n_bytes = HEAD_BYTES;
    for (uint32_t i = 0; i < N_PARTS; i++) {
        n_bytes += 4 + (parts[i] != NULL ? protobuf_c_message_get_packed_size(parts[i]) : 0);
    }
    if (n_bytes > PS_STORE_BYTES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "the coordinator's state has grown to %zu bytes",
                       n_bytes);
    }
    uint8_t *data = ps_mem_alloc(coord->options.mem, PS_MEM_OTHER, n_bytes);
    if (data == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to write the coordinator's state");
    }
    put_head(coord, data);
    size_t at = HEAD_BYTES;
    for (uint32_t i = 0; i < N_PARTS; i++) {
        size_t n = parts[i] != NULL ? protobuf_c_message_pack(parts[i], data + at + 4) : 0;
        ps_store_u32(data + at, (uint32_t)n);
        at += 4 + n;
    }
    enum ps_status status =
        ps_store_write(coord->options.store, &coord->stamp, coord->term, data, n_bytes, err);
    ps_mem_free(data);
    return status;
}

/* Version of the list of sessions, so that ours are higher. The part was checked with the whole. */
static uint64_t sessions_version(struct ps_coord *coord, const uint8_t *part, size_t n_bytes)
{
    struct ps_slice slice = {.data = part, .n_bytes = n_bytes};
    ProtobufCMessage *message =
        ps_wire_unpack(&ps__v1__open_sessions__descriptor, &slice, 1, coord->options.mem);
    uint64_t version = message != NULL ? ((const Ps__V1__OpenSessions *)message)->version : 0;
    ps_wire_unpacked_free(message);
    return version;
}

static enum ps_status take_over(struct ps_coord *coord, const uint8_t *data, size_t n_bytes,
                                struct ps_coord_core_options *ret_first, struct ps_error *err)
{
    bool first = n_bytes >= 4 && ps_load_u32(data) == FIRST_LAYOUT;
    size_t n_head = first ? FIRST_HEAD_BYTES : HEAD_BYTES;
    if (n_bytes < n_head + 4 || (!first && ps_load_u32(data) != LAYOUT) ||
        ps_load_u32(data + n_head) > n_bytes - n_head - 4) {
        return ps_fail(err, PS_ERR_CORRUPT,
                       "the coordinator's store holds a state that this build cannot read");
    }
    memcpy(coord->cluster_id.bytes, data + 4, sizeof(coord->cluster_id.bytes));
    coord->generation = ps_load_u64(data + 28);
    ret_first->first_session_number = ps_load_u64(data + 36);
    coord->key_seed = first ? coord->key_seed : ps_load_u64(data + 44);
    ret_first->first_sessions_version =
        1 + sessions_version(coord, data + n_head + 4, ps_load_u32(data + n_head));
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
    coord->generation = 1;
    coord->term = coord->stamp.term + 1;
    ret_first->first_session_number = 1;
    ret_first->first_sessions_version = 0;
    ret_first->term = coord->term;
    if (data != NULL) {
        status = take_over(coord, data, n_bytes, ret_first, err);
        ps_mem_free(data);
    }
    return status;
}
