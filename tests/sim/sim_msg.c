/* sim_msg.c — bytes on their way: lent until they depart, then copied and cut into odd slices. */
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "sim/sim_net_impl.h"

#define SLICES_MAX 5u

struct sim_load {
    size_t n_head_bytes;
    size_t n_pieces;
    struct ps_piece pieces[]; /* [n_pieces], then the head's bytes. */
};

struct sim_msg {
    struct ps_msg base;
    struct ps_slice slices[SLICES_MAX];
    uint8_t bytes[];
};

struct sim_load *sim_load_take(const struct ps_out *out)
{
    static const struct ps_out empty;
    out = out != NULL ? out : &empty;
    struct sim_load *load =
        ps_mem_alloc(NULL, PS_MEM_CALLS,
                     sizeof(*load) + out->n_pieces * sizeof(load->pieces[0]) + out->n_head_bytes);
    PS_ASSERT(load != NULL);
    load->n_head_bytes = out->n_head_bytes;
    load->n_pieces = out->n_pieces;
    for (size_t i = 0; i < out->n_pieces; i++) {
        load->pieces[i] = out->pieces[i];
    }
    if (out->n_head_bytes > 0) {
        memcpy(&load->pieces[out->n_pieces], out->head, out->n_head_bytes);
    }
    return load;
}

static void destroy_msg(struct ps_msg *base)
{
    ps_mem_free(PS_CONTAINER_OF(base, struct sim_msg, base));
}

/* Cut [bytes, bytes + n) at up to four places, some of them the same: slices may be empty. */
static void cut_slices(struct sim_world *world, struct sim_msg *msg, const uint8_t *bytes)
{
    size_t n_left = msg->base.n_bytes;
    size_t n_slices = 1 + sim_below(world, SLICES_MAX);
    for (size_t i = 0; i < n_slices; i++) {
        size_t n_bytes = i + 1 == n_slices ? n_left : sim_below(world, n_left + 1);
        msg->slices[i] = (struct ps_slice){.data = bytes, .n_bytes = n_bytes};
        bytes += n_bytes;
        n_left -= n_bytes;
    }
    msg->base.slices = msg->slices;
    msg->base.n_slices = n_slices;
}

struct ps_msg *sim_load_depart(struct sim_world *world, struct sim_load *load)
{
    size_t n_bytes = load->n_head_bytes;
    for (size_t i = 0; i < load->n_pieces; i++) {
        n_bytes += load->pieces[i].n_bytes;
    }
    size_t skew = sim_below(world, 8);
    struct sim_msg *msg = ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*msg) + skew + n_bytes);
    PS_ASSERT(msg != NULL);
    uint8_t *to = msg->bytes + skew;
    if (load->n_head_bytes > 0) {
        memcpy(to, &load->pieces[load->n_pieces], load->n_head_bytes);
    }
    to += load->n_head_bytes;
    for (size_t i = 0; i < load->n_pieces; i++) {
        const struct ps_piece *piece = &load->pieces[i];
        if (piece->n_bytes > 0) {
            memcpy(to, piece->data, piece->n_bytes);
        }
        to += piece->n_bytes;
    }
    msg->base.n_bytes = n_bytes;
    msg->base.destroy = destroy_msg;
    atomic_init(&msg->base.n_refs, 1);
    cut_slices(world, msg, msg->bytes + skew);
    for (size_t i = 0; i < load->n_pieces; i++) {
        if (load->pieces[i].done != NULL) {
            load->pieces[i].done(load->pieces[i].arg);
        }
    }
    ps_mem_free(load);
    return &msg->base;
}
