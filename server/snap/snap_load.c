/*
 * snap_load.c — the content of a snapshot, slot by slot. Chunks have been checked when their bytes
 * arrive here; what they say is not believed all the same, since a checksum keeps out damage, not
 * malice: no input reaches an assertion, here or in the tables.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "format/safetensors.h"
#include "snap/layout.h"
#include "snap/read_impl.h"
#include "snap/staged.h"

#define ROWS_AT_ONCE   1024u
#define ROWS_BYTES     (256u << 10) /* Of weights and state together; wide rows come in fewer. */
#define LENGTH_BYTES   8u
#define CURSORS        4u          /* Keys, steps, weights, state are read side by side. */
#define LINE_BYTES_MAX (64u << 20) /* Of one slot; what a lane makes is far smaller. */

/* One file that is being read at several places. */
struct reader {
    const struct ps_snap *snap;
    const struct ps_snap_found *found;
    const struct ps_snap_file *about;
    struct ps_snap_in in[CURSORS];
    struct ps_tensor_view *tensors; /* [n] */
    size_t n;
    uint64_t data_at; /* Byte of the file. */
    const struct ps_snap_visitor *visitor;
    uint32_t table;
    struct ps_error *err;
};

static enum ps_status bad(struct reader *r, uint32_t slot, const char *what, const char *why)
{
    return ps_fail(r->err, PS_ERR_CORRUPT, "%s/%s: tensor slot.%" PRIu32 ".%s %s", r->found->folder,
                   r->about->name, slot, what, why);
}

static enum ps_status read_head(struct reader *r)
{
    uint8_t length[LENGTH_BYTES];
    enum ps_status status = ps_snap_in_next(&r->in[0], length, sizeof(length), r->err);
    if (status != PS_OK) {
        return status;
    }
    uint64_t n_head = ps_load_u64(length);
    if (n_head > r->about->n_bytes - LENGTH_BYTES || n_head > PS_SAFETENSORS_HEAD_BYTES_MAX) {
        return ps_fail(r->err, PS_ERR_CORRUPT, "%s: a header of %" PRIu64 " bytes", r->in[0].path,
                       n_head);
    }
    uint8_t *head = ps_mem_alloc(r->snap->mem, PS_MEM_OTHER, (size_t)n_head);
    r->tensors =
        ps_mem_array(r->snap->mem, PS_MEM_OTHER, PS_SAFETENSORS_TENSORS_MAX, sizeof(r->tensors[0]));
    if (head == NULL || r->tensors == NULL) {
        ps_mem_free(head);
        return ps_fail(r->err, PS_ERR_NOMEM, "no memory to read '%s'", r->in[0].path);
    }
    r->data_at = LENGTH_BYTES + n_head;
    status = ps_snap_in_next(&r->in[0], head, (size_t)n_head, r->err);
    if (status == PS_OK) {
        status = ps_safetensors_parse_head(head, (size_t)n_head, r->about->n_bytes - r->data_at,
                                           r->tensors, &r->n, r->err);
        status = status == PS_OK ? PS_OK : ps_wrap(r->err, status, "%s", r->in[0].path);
    }
    ps_mem_free(head);
    return status;
}

static void close_reader(struct reader *r)
{
    for (uint32_t i = 0; i < CURSORS; i++) {
        ps_snap_in_close(&r->in[i]);
    }
    ps_mem_free(r->tensors);
}

/* Open a file of a part. On failure it is closed again. */
static enum ps_status open_reader(struct reader *r, uint32_t n_cursors)
{
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; status == PS_OK && i < n_cursors; i++) {
        status = ps_snap_in_open(&r->in[i], r->snap->disk, r->snap->mem, r->found->folder, r->about,
                                 r->err);
    }
    status = status == PS_OK ? read_head(r) : status;
    if (status != PS_OK) {
        close_reader(r);
    }
    return status;
}

static const struct ps_tensor_view *named(const struct reader *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(r->tensors[i].name, name) == 0) {
            return &r->tensors[i];
        }
    }
    return NULL;
}

static const struct ps_tensor_view *tensor_of(const struct reader *r, uint32_t slot,
                                              const char *what)
{
    char name[PS_NAME_BYTES_MAX + 1];
    (void)snprintf(name, sizeof(name), "slot.%" PRIu32 ".%s", slot, what);
    return named(r, name);
}

/* Is it there, of this type, and with so many dimensions? */
static bool shaped(const struct ps_tensor_view *tensor, enum ps_tensor_type type, uint32_t n_dims)
{
    return tensor != NULL && tensor->type == type && tensor->n_dims == n_dims;
}

static void seek(struct reader *r, uint32_t cursor, const struct ps_tensor_view *tensor)
{
    ps_snap_in_seek(&r->in[cursor], r->data_at + tensor->first);
}

/* A tensor of bytes as a whole; `*ret` is freed with ps_mem_free. */
static enum ps_status read_bytes(struct reader *r, const struct ps_tensor_view *tensor,
                                 uint8_t **ret)
{
    uint8_t *bytes = ps_mem_alloc(r->snap->mem, PS_MEM_OTHER, (size_t)tensor->n_values);
    if (bytes == NULL) {
        return ps_fail(r->err, PS_ERR_NOMEM, "no memory for %" PRIu64 " bytes of '%s'",
                       tensor->n_values, r->in[0].path);
    }
    seek(r, 0, tensor);
    enum ps_status status = ps_snap_in_next(&r->in[0], bytes, (size_t)tensor->n_values, r->err);
    if (status != PS_OK) {
        ps_mem_free(bytes);
        return status;
    }
    *ret = bytes;
    return PS_OK;
}

/* ---- Dense ---------------------------------------------------------------------------------- */

/* The blocks of one slot, and room for one of them. */
struct blocks {
    uint64_t n;
    uint32_t n_state;
    uint64_t n_floats;                          /* Of all. */
    uint64_t (*numbers)[PS_SNAP_BLOCK_NUMBERS]; /* [n] */
    double (*power)[2];                         /* [n] */
    float *weights;                             /* [PS_BLOCK_FLOATS_MAX] */
    float *state;                               /* [n_state][PS_BLOCK_FLOATS_MAX] */
    const struct ps_tensor_view *weights_at;
    const struct ps_tensor_view *state_at; /* NULL: none. */
};

static enum ps_status read_numbers(struct reader *r, uint32_t slot, struct blocks *b)
{
    const struct ps_tensor_view *numbers = tensor_of(r, slot, PS_SNAP_BLOCKS);
    const struct ps_tensor_view *power = tensor_of(r, slot, PS_SNAP_POWER);
    if (!shaped(numbers, PS_TENSOR_U64, 2) || numbers->dims[1] != PS_SNAP_BLOCK_NUMBERS ||
        numbers->dims[0] > PS_BLOCKS_MAX) {
        return bad(r, slot, PS_SNAP_BLOCKS, "has not the shape [n, 4]");
    }
    b->n = numbers->dims[0];
    if (!shaped(power, PS_TENSOR_F64, 2) || power->dims[0] != b->n || power->dims[1] != 2) {
        return bad(r, slot, PS_SNAP_POWER, "has not the shape [n, 2]");
    }
    b->numbers = ps_mem_array(r->snap->mem, PS_MEM_OTHER, (size_t)b->n, sizeof(b->numbers[0]));
    b->power = ps_mem_array(r->snap->mem, PS_MEM_OTHER, (size_t)b->n, sizeof(b->power[0]));
    if (b->numbers == NULL || b->power == NULL) {
        return ps_fail(r->err, PS_ERR_NOMEM, "no memory for %" PRIu64 " blocks", b->n);
    }
    seek(r, 0, numbers);
    enum ps_status status =
        ps_snap_in_next(&r->in[0], b->numbers, (size_t)b->n * sizeof(b->numbers[0]), r->err);
    if (status == PS_OK) {
        seek(r, 0, power);
        status = ps_snap_in_next(&r->in[0], b->power, (size_t)b->n * sizeof(b->power[0]), r->err);
    }
    return status;
}

static enum ps_status check_blocks(struct reader *r, uint32_t slot, struct blocks *b)
{
    PS_ASSERT(b->numbers != NULL);
    for (uint64_t i = 0; i < b->n; i++) {
        if (b->numbers[i][0] >= PS_BLOCKS_MAX ||
            (i > 0 && b->numbers[i][0] <= b->numbers[i - 1][0]) || b->numbers[i][1] == 0 ||
            b->numbers[i][1] > PS_BLOCK_FLOATS_MAX) {
            return bad(r, slot, PS_SNAP_BLOCKS, "has numbers that no block can have");
        }
        b->n_floats += b->numbers[i][1];
    }
    b->weights_at = tensor_of(r, slot, PS_SNAP_WEIGHTS);
    b->state_at = tensor_of(r, slot, PS_SNAP_STATE);
    if (!shaped(b->weights_at, PS_TENSOR_F32, 1) || b->weights_at->n_values != b->n_floats) {
        return bad(r, slot, PS_SNAP_WEIGHTS, "has another size than its blocks");
    }
    if (b->state_at == NULL || b->n_floats == 0) {
        return PS_OK;
    }
    if (!shaped(b->state_at, PS_TENSOR_F32, 1) || b->state_at->n_values % b->n_floats != 0 ||
        b->state_at->n_values / b->n_floats > PS_ROW_STATE_MAX) {
        return bad(r, slot, PS_SNAP_STATE, "has another size than its blocks");
    }
    b->n_state = (uint32_t)(b->state_at->n_values / b->n_floats);
    return PS_OK;
}

static enum ps_status show_blocks(struct reader *r, uint32_t slot, struct blocks *b)
{
    enum ps_status status = PS_OK;
    PS_ASSERT(b->numbers != NULL && b->power != NULL && b->weights_at != NULL);
    seek(r, 1, b->weights_at);
    if (b->n_state > 0) {
        seek(r, 2, b->state_at);
    }
    for (uint64_t i = 0; status == PS_OK && i < b->n; i++) {
        size_t n = (size_t)b->numbers[i][1];
        status = ps_snap_in_next(&r->in[1], b->weights, n * sizeof(float), r->err);
        if (status == PS_OK && b->n_state > 0) {
            status = ps_snap_in_next(&r->in[2], b->state, n * b->n_state * sizeof(float), r->err);
        }
        struct ps_snap_block block = {
            .slot = slot,
            .table = r->table,
            .block = (uint32_t)b->numbers[i][0],
            .state_per_elem = b->n_state,
            .saved = {.weights = b->weights,
                      .state = b->n_state > 0 ? b->state : NULL,
                      .n = (uint32_t)n,
                      .version = b->numbers[i][3],
                      .t = b->numbers[i][2],
                      .power = {b->power[i][0], b->power[i][1]}},
        };
        if (status == PS_OK) {
            status = r->visitor->block(r->visitor->arg, &block, r->err);
        }
    }
    return status;
}

static enum ps_status load_dense(struct reader *r, uint32_t slot)
{
    struct blocks b = {0};
    enum ps_status status = read_numbers(r, slot, &b);
    status = status == PS_OK ? check_blocks(r, slot, &b) : status;
    if (status == PS_OK && r->visitor->block != NULL) {
        b.weights = ps_mem_array(r->snap->mem, PS_MEM_OTHER, PS_BLOCK_FLOATS_MAX, sizeof(float));
        b.state = ps_mem_array(r->snap->mem, PS_MEM_OTHER, (size_t)PS_BLOCK_FLOATS_MAX * b.n_state,
                               sizeof(float));
        status = b.weights != NULL && b.state != NULL
                     ? show_blocks(r, slot, &b)
                     : ps_fail(r->err, PS_ERR_NOMEM, "no memory for a block");
    }
    ps_mem_free(b.numbers);
    ps_mem_free(b.power);
    ps_mem_free(b.weights);
    ps_mem_free(b.state);
    return status;
}

/* ---- Sparse --------------------------------------------------------------------------------- */

/* The rows of one slot, and room for some of them. */
struct rows {
    uint64_t n;
    uint32_t width;
    uint32_t n_state;
    uint32_t n_room; /* Rows at once. */
    uint64_t last;   /* Key shown last, + 1; 0: none, or the greatest. */
    const struct ps_tensor_view *keys_at;
    const struct ps_tensor_view *steps_at;
    const struct ps_tensor_view *weights_at; /* NULL: they follow from the state. */
    const struct ps_tensor_view *state_at;   /* NULL: none. */
    uint64_t keys[ROWS_AT_ONCE];
    uint32_t steps[ROWS_AT_ONCE][2];
    float *weights; /* [n_room][width] */
    float *state;   /* [n_room][n_state][width] */
};

static enum ps_status check_values(struct reader *r, uint32_t slot, struct rows *rows)
{
    const struct ps_tensor_view *weights = tensor_of(r, slot, PS_SNAP_WEIGHTS);
    const struct ps_tensor_view *state = tensor_of(r, slot, PS_SNAP_STATE);
    uint64_t width = 0;
    if (weights != NULL && (!shaped(weights, PS_TENSOR_F32, 2) || weights->dims[0] != rows->n)) {
        return bad(r, slot, PS_SNAP_WEIGHTS, "has not the shape [n, width]");
    }
    if (state != NULL && (!shaped(state, PS_TENSOR_F32, 3) || state->dims[0] != rows->n ||
                          state->dims[1] == 0 || state->dims[1] > PS_ROW_STATE_MAX ||
                          (weights != NULL && state->dims[2] != weights->dims[1]))) {
        return bad(r, slot, PS_SNAP_STATE, "has not the shape [n, k, width]");
    }
    width = weights != NULL ? weights->dims[1] : state != NULL ? state->dims[2] : 0;
    if (width == 0 || width > PS_ROW_FLOATS_MAX) {
        return bad(r, slot, PS_SNAP_WEIGHTS, "has no width that a row can have");
    }
    rows->width = (uint32_t)width;
    rows->n_state = state != NULL ? (uint32_t)state->dims[1] : 0;
    rows->weights_at = weights;
    rows->state_at = state;
    return PS_OK;
}

static enum ps_status check_rows(struct reader *r, uint32_t slot, struct rows *rows)
{
    rows->keys_at = tensor_of(r, slot, PS_SNAP_KEYS);
    rows->steps_at = tensor_of(r, slot, PS_SNAP_STEPS);
    if (!shaped(rows->keys_at, PS_TENSOR_U64, 1) || rows->keys_at->dims[0] > PS_SPARSE_ROWS_MAX) {
        return bad(r, slot, PS_SNAP_KEYS, "has not the shape [n]");
    }
    rows->n = rows->keys_at->dims[0];
    if (!shaped(rows->steps_at, PS_TENSOR_U32, 2) || rows->steps_at->dims[0] != rows->n ||
        rows->steps_at->dims[1] != 2) {
        return bad(r, slot, PS_SNAP_STEPS, "has not the shape [n, 2]");
    }
    return check_values(r, slot, rows);
}

/* What belongs to the slot beside its rows. */
static enum ps_status load_rest(struct reader *r, uint32_t slot)
{
    const struct ps_tensor_view *clock_at = tensor_of(r, slot, PS_SNAP_CLOCK);
    const struct ps_tensor_view *rate_at = tensor_of(r, slot, PS_SNAP_RATE);
    const struct ps_tensor_view *counts_at = tensor_of(r, slot, PS_SNAP_COUNTS);
    uint32_t clock[2] = {0};
    float rate = 0.0f;
    uint8_t *counts = NULL;
    if (!shaped(clock_at, PS_TENSOR_U32, 1) || clock_at->n_values != 2) {
        return bad(r, slot, PS_SNAP_CLOCK, "has not the shape [2]");
    }
    if (!shaped(rate_at, PS_TENSOR_F32, 1) || rate_at->n_values != 1) {
        return bad(r, slot, PS_SNAP_RATE, "has not the shape [1]");
    }
    if (counts_at != NULL &&
        (!shaped(counts_at, PS_TENSOR_U8, 1) || counts_at->n_values > PS_ADMIT_BYTES_MAX)) {
        return bad(r, slot, PS_SNAP_COUNTS, "has not the shape [n]");
    }
    seek(r, 0, clock_at);
    enum ps_status status = ps_snap_in_next(&r->in[0], clock, sizeof(clock), r->err);
    if (status == PS_OK) {
        seek(r, 0, rate_at);
        status = ps_snap_in_next(&r->in[0], &rate, sizeof(rate), r->err);
    }
    uint64_t n_counts = counts_at != NULL ? counts_at->n_values : 0;
    if (status == PS_OK && n_counts > 0 && clock[1] >= n_counts / sizeof(uint64_t)) {
        return bad(r, slot, PS_SNAP_CLOCK, "names a word that is no counter");
    }
    if (status == PS_OK && counts_at != NULL) {
        status = read_bytes(r, counts_at, &counts);
    }
    if (status == PS_OK) {
        struct ps_sparse_rest rest = {
            .clock = clock[0], .rate = rate, .aged = clock[1], .counts = counts};
        status =
            r->visitor->rest(r->visitor->arg, slot, r->table, &rest, (uint32_t)n_counts, r->err);
    }
    ps_mem_free(counts);
    return status;
}

static enum ps_status read_rows(struct reader *r, struct rows *rows, uint32_t n)
{
    size_t n_row = rows->width * sizeof(float);
    enum ps_status status =
        ps_snap_in_next(&r->in[0], rows->keys, n * sizeof(rows->keys[0]), r->err);
    if (status == PS_OK) {
        status = ps_snap_in_next(&r->in[1], rows->steps, n * sizeof(rows->steps[0]), r->err);
    }
    if (status == PS_OK && rows->weights_at != NULL) {
        status = ps_snap_in_next(&r->in[2], rows->weights, n * n_row, r->err);
    }
    if (status == PS_OK && rows->state_at != NULL) {
        status = ps_snap_in_next(&r->in[3], rows->state, n * n_row * rows->n_state, r->err);
    }
    return status;
}

static enum ps_status show_rows(struct reader *r, uint32_t slot, struct rows *rows, uint32_t n)
{
    enum ps_status status = PS_OK;
    struct ps_snap_row row = {
        .slot = slot, .table = r->table, .width = rows->width, .state_per_elem = rows->n_state};
    for (uint32_t i = 0; status == PS_OK && i < n; i++) {
        row.saved = (struct ps_sparse_row){
            .key = rows->keys[i],
            .t = rows->steps[i][0],
            .touched = rows->steps[i][1],
            .weights = rows->weights_at != NULL ? rows->weights + (size_t)i * rows->width : NULL,
            .state = rows->state_at != NULL ? rows->state + (size_t)i * rows->width * rows->n_state
                                            : NULL,
        };
        if (row.saved.t == 0 || row.saved.key < rows->last ||
            (i > 0 && row.saved.key <= rows->keys[i - 1])) {
            return bad(r, slot, PS_SNAP_KEYS, "has keys that no row can have");
        }
        status = r->visitor->row(r->visitor->arg, &row, r->err);
    }
    return status;
}

static enum ps_status load_rows(struct reader *r, uint32_t slot, struct rows *rows)
{
    size_t n_row = (size_t)rows->width * (1u + rows->n_state) * sizeof(float);
    rows->n_room = (uint32_t)(ROWS_BYTES / n_row);
    rows->n_room = rows->n_room == 0             ? 1
                   : rows->n_room > ROWS_AT_ONCE ? ROWS_AT_ONCE
                                                 : rows->n_room;
    rows->weights =
        ps_mem_array(r->snap->mem, PS_MEM_OTHER, (size_t)rows->n_room * rows->width, sizeof(float));
    rows->state = ps_mem_array(r->snap->mem, PS_MEM_OTHER,
                               (size_t)rows->n_room * rows->width * rows->n_state, sizeof(float));
    if (rows->weights == NULL || rows->state == NULL) {
        return ps_fail(r->err, PS_ERR_NOMEM, "no memory for rows");
    }
    seek(r, 0, rows->keys_at);
    seek(r, 1, rows->steps_at);
    if (rows->weights_at != NULL) {
        seek(r, 2, rows->weights_at);
    }
    if (rows->state_at != NULL) {
        seek(r, 3, rows->state_at);
    }
    enum ps_status status = PS_OK;
    for (uint64_t at = 0; status == PS_OK && at < rows->n;) {
        uint64_t n_left = rows->n - at;
        uint32_t n = n_left < rows->n_room ? (uint32_t)n_left : rows->n_room;
        status = read_rows(r, rows, n);
        status = status == PS_OK ? show_rows(r, slot, rows, n) : status;
        if (status == PS_OK && rows->keys[n - 1] == UINT64_MAX && at + n < rows->n) {
            status = bad(r, slot, PS_SNAP_KEYS, "has keys that no row can have");
        }
        rows->last = rows->keys[n - 1] + 1;
        at += n;
    }
    return status;
}

static enum ps_status load_sparse(struct reader *r, uint32_t slot)
{
    struct rows *rows = ps_mem_alloc(r->snap->mem, PS_MEM_OTHER, sizeof(*rows));
    if (rows == NULL) {
        return ps_fail(r->err, PS_ERR_NOMEM, "no memory for rows");
    }
    enum ps_status status = check_rows(r, slot, rows);
    if (status == PS_OK && r->visitor->rest != NULL) {
        status = load_rest(r, slot);
    }
    if (status == PS_OK && r->visitor->row != NULL) {
        status = load_rows(r, slot, rows);
    }
    ps_mem_free(rows->weights);
    ps_mem_free(rows->state);
    ps_mem_free(rows);
    return status;
}

/* ---- All ------------------------------------------------------------------------------------ */

static bool asked(const struct ps_snap *snap, const struct ps_snap_found *found, uint64_t slots,
                  uint32_t slot)
{
    return (slots >> slot & 1) != 0 && snap->holder[slot] != 0 &&
           &snap->parts[snap->holder[slot] - 1] == found;
}

static enum ps_status load_table(struct reader *r, uint64_t slots)
{
    enum ps_status status = open_reader(r, CURSORS);
    if (status != PS_OK) {
        return status;
    }
    for (uint32_t s = 0; status == PS_OK && s < PS_SLOTS; s++) {
        if (!asked(r->snap, r->found, slots, s)) {
            continue;
        }
        if (tensor_of(r, s, PS_SNAP_BLOCKS) != NULL) {
            status = load_dense(r, s);
        } else if (tensor_of(r, s, PS_SNAP_KEYS) != NULL) {
            status = load_sparse(r, s);
        }
    }
    close_reader(r);
    return status;
}

static enum ps_status load_line(struct reader *r, const struct ps_snap_slot *slot)
{
    const struct ps_tensor_view *tensor = tensor_of(r, slot->slot, PS_SNAP_LINE);
    uint8_t *state = NULL;
    if (!shaped(tensor, PS_TENSOR_U8, 1) || tensor->n_values > LINE_BYTES_MAX) {
        return bad(r, slot->slot, PS_SNAP_LINE, "has not the shape [n]");
    }
    enum ps_status status = read_bytes(r, tensor, &state);
    if (status == PS_OK) {
        status = r->visitor->slot(r->visitor->arg, slot, state, (size_t)tensor->n_values, r->err);
        ps_mem_free(state);
    }
    return status;
}

static enum ps_status load_lines(struct reader *r, uint64_t slots)
{
    if (r->visitor->slot == NULL) {
        return PS_OK;
    }
    r->about = ps_snap_file_named(&r->found->part, PS_SNAP_SLOTS);
    PS_ASSERT(r->about != NULL); /* Checked when the part was opened. */
    enum ps_status status = open_reader(r, 1);
    if (status != PS_OK) {
        return status;
    }
    for (uint32_t i = 0; status == PS_OK && i < r->found->part.n_slots; i++) {
        if ((slots >> r->found->part.slots[i].slot & 1) != 0) {
            status = load_line(r, &r->found->part.slots[i]);
        }
    }
    close_reader(r);
    return status;
}

/* What of the slots one part has. */
static enum ps_status load_part(const struct ps_snap *snap, const struct ps_snap_found *found,
                                uint64_t slots, const struct ps_snap_visitor *visitor,
                                struct ps_error *err)
{
    struct reader r = {.snap = snap, .found = found, .visitor = visitor, .err = err};
    enum ps_status status = load_lines(&r, slots);
    for (uint32_t t = 0; t < PS_TABLES_MAX; t++) {
        for (uint32_t i = 0; status == PS_OK && i < found->part.n_files; i++) {
            if (found->part.files[i].table == t + 1) {
                r = (struct reader){.snap = snap,
                                    .found = found,
                                    .about = &found->part.files[i],
                                    .visitor = visitor,
                                    .table = t,
                                    .err = err};
                status = load_table(&r, slots);
            }
        }
    }
    return status == PS_OK ? ps_snap_load_staged(snap, found, slots, visitor, err) : status;
}

enum ps_status ps_snap_load(const struct ps_snap *snap, uint64_t slots,
                            const struct ps_snap_visitor *visitor, struct ps_error *err)
{
    enum ps_status status = PS_OK;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        if ((slots >> s & 1) != 0 && snap->holder[s] == 0) {
            return ps_fail(err, PS_ERR_LOST,
                           "%s: slot %" PRIu32 " is in a part that is not here: psctl snapshot "
                           "--gather collects them",
                           snap->folder, s);
        }
    }
    for (uint32_t p = 0; status == PS_OK && p < snap->n_parts; p++) {
        bool any = false;
        for (uint32_t s = 0; s < PS_SLOTS; s++) {
            any = any || asked(snap, &snap->parts[p], slots, s);
        }
        status = any ? load_part(snap, &snap->parts[p], slots, visitor, err) : PS_OK;
    }
    return status;
}

enum ps_status ps_snap_table(const struct ps_snap *snap, uint32_t table, uint8_t **ret,
                             size_t *ret_n_bytes, struct ps_error *err)
{
    char name[32];
    if (snap->n_parts == 0) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "%s: no part of it is here", snap->folder);
    }
    struct reader r = {.snap = snap, .found = &snap->parts[0], .err = err};
    r.about = ps_snap_file_named(&r.found->part, PS_SNAP_SLOTS);
    PS_ASSERT(r.about != NULL); /* Checked when the part was opened. */
    enum ps_status status = open_reader(&r, 1);
    if (status != PS_OK) {
        return status;
    }
    (void)snprintf(name, sizeof(name), "table.%" PRIu32, table);
    const struct ps_tensor_view *tensor = named(&r, name);
    if (tensor == NULL) {
        status = ps_fail(err, PS_ERR_NOT_FOUND, "%s: no table %" PRIu32, r.in[0].path, table);
    } else if (!shaped(tensor, PS_TENSOR_U8, 1) || tensor->n_values > LINE_BYTES_MAX) {
        status = ps_fail(err, PS_ERR_CORRUPT, "%s: %s is no definition", r.in[0].path, name);
    } else {
        status = read_bytes(&r, tensor, ret);
        *ret_n_bytes = (size_t)tensor->n_values;
    }
    close_reader(&r);
    return status;
}
