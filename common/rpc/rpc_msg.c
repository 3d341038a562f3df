/* rpc_msg.c — see rpc_msg.h. */
#include "rpc/rpc_msg.h"

#include <time.h>

#include <grpc/grpc.h>
#include <grpc/slice_buffer.h>

#include "base/assert.h"
#include "os/clock.h"
#include "rpc/rpc_cq.h"

#define LENT_S_MAX 30 /* Later something of gRPC's has leaked. */

size_t ps_rpc_out_bytes(const struct ps_out *out)
{
    size_t n_bytes = out->n_head_bytes;
    for (size_t i = 0; i < out->n_pieces; i++) {
        n_bytes += out->pieces[i].n_bytes;
    }
    return n_bytes;
}

/* ---- Lending ------------------------------------------------------------------------------- */

static void lock(struct ps_rpc_lender *lender)
{
    int failed = pthread_mutex_lock(&lender->lock);
    PS_ASSERT(failed == 0);
}

static void unlock(struct ps_rpc_lender *lender)
{
    int failed = pthread_mutex_unlock(&lender->lock);
    PS_ASSERT(failed == 0);
}

void ps_rpc_lender_init(struct ps_rpc_lender *lender)
{
    pthread_condattr_t attr;
    int failed = pthread_condattr_init(&attr);
    failed |= pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    failed |= pthread_cond_init(&lender->changed, &attr);
    failed |= pthread_condattr_destroy(&attr);
    failed |= pthread_mutex_init(&lender->lock, NULL);
    PS_ASSERT(failed == 0);
    lender->n_loans = 0;
}

void ps_rpc_lender_deinit(struct ps_rpc_lender *lender)
{
    struct timespec until = {.tv_sec = (time_t)(ps_clock_ms() / 1000 + LENT_S_MAX)};
    int late = 0;
    lock(lender);
    while (lender->n_loans > 0 && late == 0) {
        late = pthread_cond_timedwait(&lender->changed, &lender->lock, &until);
    }
    unlock(lender);
    PS_ASSERT(late == 0);
    (void)pthread_cond_destroy(&lender->changed);
    (void)pthread_mutex_destroy(&lender->lock);
}

/* The pieces of one message while gRPC has them; freed with the last. */
struct loan {
    struct ps_rpc_lender *lender;
    _Atomic size_t n_left;
    struct lent_piece {
        struct loan *loan;
        void (*done)(void *arg);
        void *arg;
    } pieces[];
};

static void finish_piece(const struct ps_piece *piece)
{
    if (piece->done != NULL) {
        piece->done(piece->arg);
    }
}

static void give_back(void *arg)
{
    struct lent_piece *piece = arg;
    PS_RPC_TAKEN(piece);
    if (piece->done != NULL) {
        piece->done(piece->arg);
    }
    struct loan *loan = piece->loan;
    struct ps_rpc_lender *lender = loan->lender;
    if (atomic_fetch_sub_explicit(&loan->n_left, 1, memory_order_acq_rel) != 1) {
        return;
    }
    ps_mem_free(loan);
    lock(lender);
    lender->n_loans--;
    if (lender->n_loans == 0) {
        (void)pthread_cond_signal(&lender->changed);
    }
    unlock(lender);
}

static struct loan *make_loan(struct ps_rpc_lender *lender, const struct ps_out *out)
{
    size_t n_pieces = 0;
    for (size_t i = 0; i < out->n_pieces; i++) {
        n_pieces += out->pieces[i].n_bytes > 0 ? 1 : 0;
    }
    if (n_pieces == 0) {
        return NULL;
    }
    struct loan *loan =
        ps_mem_alloc(NULL, PS_MEM_CALLS, sizeof(*loan) + n_pieces * sizeof(loan->pieces[0]));
    PS_ASSERT(loan != NULL); /* A call cannot fail before it has begun. */
    loan->lender = lender;
    atomic_init(&loan->n_left, n_pieces);
    lock(lender);
    lender->n_loans++;
    unlock(lender);
    return loan;
}

static grpc_slice lend(struct loan *loan, struct lent_piece *lent, const struct ps_piece *piece)
{
    union {
        const uint8_t *borrowed;
        void *wanted; /* gRPC does not write to what it sends. */
    } data = {.borrowed = piece->data};
    *lent = (struct lent_piece){.loan = loan, .done = piece->done, .arg = piece->arg};
    PS_RPC_HANDOFF(lent);
    return grpc_slice_new_with_user_data(data.wanted, piece->n_bytes, give_back, lent);
}

grpc_byte_buffer *ps_rpc_out_pack(struct ps_rpc_lender *lender, const struct ps_out *out)
{
    static const struct ps_out empty;
    out = out != NULL ? out : &empty;
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;
    if (out->n_head_bytes > 0) {
        grpc_slice_buffer_add(
            slices, grpc_slice_from_copied_buffer((const char *)out->head, out->n_head_bytes));
    }
    struct loan *loan = make_loan(lender, out);
    size_t n_lent = 0;
    for (size_t i = 0; i < out->n_pieces; i++) {
        if (out->pieces[i].n_bytes > 0) {
            grpc_slice_buffer_add(slices, lend(loan, &loan->pieces[n_lent], &out->pieces[i]));
            n_lent++;
        } else {
            finish_piece(&out->pieces[i]);
        }
    }
    return buffer;
}

void ps_rpc_out_drop(const struct ps_out *out)
{
    for (size_t i = 0; out != NULL && i < out->n_pieces; i++) {
        finish_piece(&out->pieces[i]);
    }
}

/* ---- Receiving ----------------------------------------------------------------------------- */

struct rpc_msg {
    struct ps_msg base;
    grpc_byte_buffer *buffer;
    struct ps_slice slices[]; /* Into `buffer`. */
};

static void destroy_msg(struct ps_msg *base)
{
    struct rpc_msg *msg = PS_CONTAINER_OF(base, struct rpc_msg, base);
    grpc_byte_buffer_destroy(msg->buffer);
    ps_mem_free(msg);
}

bool ps_rpc_msg_plain(const grpc_byte_buffer *buffer)
{
    return buffer->type == GRPC_BB_RAW && buffer->data.raw.compression == GRPC_COMPRESS_NONE;
}

struct ps_msg *ps_rpc_msg_create(struct ps_mem *mem, grpc_byte_buffer *buffer)
{
    PS_ASSERT(ps_rpc_msg_plain(buffer)); /* Asked before. */
    size_t n_slices = buffer->data.raw.slice_buffer.count;
    struct rpc_msg *msg =
        ps_mem_alloc(mem, PS_MEM_CALLS, sizeof(*msg) + n_slices * sizeof(msg->slices[0]));
    if (msg == NULL) {
        grpc_byte_buffer_destroy(buffer);
        return NULL;
    }
    for (size_t i = 0; i < n_slices; i++) {
        grpc_slice *slice = &buffer->data.raw.slice_buffer.slices[i];
        msg->slices[i].data = GRPC_SLICE_START_PTR(*slice); /* Some lie in the slice itself. */
        msg->slices[i].n_bytes = GRPC_SLICE_LENGTH(*slice);
    }
    msg->buffer = buffer;
    msg->base.slices = msg->slices;
    msg->base.n_slices = n_slices;
    msg->base.n_bytes = grpc_byte_buffer_length(buffer);
    msg->base.destroy = destroy_msg;
    atomic_init(&msg->base.n_refs, 1);
    return &msg->base;
}
