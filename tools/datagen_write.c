/* datagen_write.c — rows as lines: libsvm, csv, Criteo's tab separated columns. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "datagen.h"

#define BLOCK_BYTES (1u << 20)
#define ROOM_BYTES  64u /* More than any one put writes. */
#define COUNTS      13u

static enum ps_status cannot_write(const struct datagen *gen, int error, struct ps_error *err)
{
    struct ps_conf_words words;
    return ps_fail(err, PS_ERR_IO, "%s cannot be written: %s",
                   ps_conf_say(gen->conf, "out", &words), strerrordesc_np(error));
}

enum ps_status datagen_out_open(struct datagen_out *out, const struct datagen *gen,
                                struct ps_error *err)
{
    const char *path = gen->options.out;
    *out = (struct datagen_out){0};
    out->buffer = ps_mem_alloc(NULL, PS_MEM_OTHER, BLOCK_BYTES);
    if (out->buffer == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a block of lines");
    }
    out->file = strcmp(path, "-") == 0 ? stdout : fopen(path, "wb");
    if (out->file == NULL) {
        enum ps_status status = cannot_write(gen, errno, err);
        ps_mem_free(out->buffer);
        return status;
    }
    return PS_OK;
}

static void flush(struct datagen_out *out)
{
    if (!out->failed && fwrite(out->buffer, 1, out->n, out->file) != out->n) {
        out->failed = true;
        out->error = errno;
    }
    out->n = 0;
}

enum ps_status datagen_out_close(struct datagen_out *out, const struct datagen *gen,
                                 struct ps_error *err)
{
    flush(out);
    int closed = out->file == stdout ? fflush(stdout) : fclose(out->file);
    if (closed != 0 && !out->failed) {
        out->failed = true;
        out->error = errno;
    }
    ps_mem_free(out->buffer);
    return out->failed ? cannot_write(gen, out->error, err) : PS_OK;
}

/* Where the next ROOM_BYTES may be written. */
static char *room(struct datagen_out *out)
{
    if (out->n + ROOM_BYTES > BLOCK_BYTES) {
        flush(out);
    }
    return out->buffer + out->n;
}

static void wrote(struct datagen_out *out, size_t n)
{
    out->n += n;
    out->n_bytes += n;
}

static void put_char(struct datagen_out *out, char c)
{
    *room(out) = c;
    wrote(out, 1);
}

static void put_text(struct datagen_out *out, const char *text)
{
    for (; *text != '\0'; text++) {
        put_char(out, *text);
    }
}

static size_t digits_of(char *to, uint64_t value)
{
    char reversed[20];
    size_t n = 0;
    do {
        reversed[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    for (size_t i = 0; i < n; i++) {
        to[i] = reversed[n - 1 - i];
    }
    return n;
}

static void put_number(struct datagen_out *out, uint64_t value)
{
    wrote(out, digits_of(room(out), value));
}

/* As short as it can be: 3, -0.5, 2.0001. */
static void put_fixed(struct datagen_out *out, int64_t value)
{
    char *to = room(out);
    size_t n = 0;
    if (value < 0) {
        to[n++] = '-';
    }
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint32_t part = (uint32_t)(size % DATAGEN_ONE);
    n += digits_of(to + n, size / DATAGEN_ONE);
    if (part != 0) {
        to[n++] = '.';
        for (uint32_t unit = DATAGEN_ONE / 10; part != 0; unit /= 10) {
            to[n++] = (char)('0' + part / unit);
            part %= unit;
        }
    }
    wrote(out, n);
}

/* An id as Criteo's hashes look; a bijection of 32 bits (the finaliser of MurmurHash3). */
static void put_hash(struct datagen_out *out, uint32_t column, uint32_t id)
{
    static const char hex[] = "0123456789abcdef";
    uint32_t x = id ^ (column * 0x9e3779b9u);
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    x ^= x >> 16;
    char *to = room(out);
    for (uint32_t i = 0; i < 8; i++) {
        to[i] = hex[(x >> (28 - 4 * i)) & 15u];
    }
    wrote(out, 8);
}

static bool is_id(const struct datagen *gen, uint32_t column)
{
    return gen->sizes[column % PS_ARRAY_LEN(gen->sizes)] != 0 && gen->kind->ids;
}

static void put_libsvm(struct datagen_out *out, const struct datagen *gen,
                       const struct datagen_row *row)
{
    put_fixed(out, row->label);
    for (size_t i = 0; i < row->n; i++) {
        const struct datagen_feature *feature = &row->features[i];
        int64_t value = feature->value;
        uint64_t index = (uint64_t)feature->column + 1;
        if (is_id(gen, feature->column)) {
            index = (uint64_t)gen->offsets[feature->column] + feature->id;
            value = DATAGEN_ONE;
        } else if (gen->kind->ids) { /* A count: scaled as a reader would. */
            value = datagen_fixed(log1p(datagen_value(value)));
        }
        if (value != 0) {
            put_char(out, ' ');
            put_number(out, index);
            put_char(out, ':');
            put_fixed(out, value);
        }
    }
    put_char(out, '\n');
}

/* Columns that a row has not are empty where ids are missing, 0 where numbers are. */
static void put_columns(struct datagen_out *out, const struct datagen *gen,
                        const struct datagen_row *row)
{
    char between = gen->options.format == DATAGEN_CRITEO ? '\t' : ',';
    const struct datagen_feature *next = row->features;
    const struct datagen_feature *end = row->features + row->n;
    put_fixed(out, row->label);
    for (uint32_t column = 0; column < gen->n_columns; column++) {
        put_char(out, between);
        bool there = next < end && next->column == column;
        if (there && !is_id(gen, column)) {
            put_fixed(out, next->value);
        } else if (there && gen->kind == &datagen_clicks) {
            put_hash(out, column, next->id);
        } else if (there) {
            put_number(out, next->id);
        } else if (!gen->kind->ids) {
            put_char(out, '0');
        }
        next += there;
    }
    put_char(out, '\n');
}

void datagen_put_row(struct datagen_out *out, const struct datagen *gen,
                     const struct datagen_row *row)
{
    switch (gen->options.format) {
    case DATAGEN_LIBSVM: put_libsvm(out, gen, row); break;
    case DATAGEN_CSV:
    case DATAGEN_CRITEO: put_columns(out, gen, row); break;
    case DATAGEN_FORMAT_COUNT: break;
    }
}

void datagen_put_header(struct datagen_out *out, const struct datagen *gen)
{
    if (gen->options.format != DATAGEN_CSV) {
        return;
    }
    if (gen->kind == &datagen_ratings) {
        put_text(out, "rating,user,item\n");
        return;
    }
    put_text(out, "label");
    for (uint32_t column = 0; column < gen->n_columns; column++) {
        bool id = is_id(gen, column);
        put_text(out, gen->kind->ids ? (id ? ",c" : ",i") : ",f");
        put_number(out, id ? column - COUNTS + 1 : column + 1);
    }
    put_char(out, '\n');
}
