/* feed_plan.c — how large parts are: see feed.h. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/limits.h"
#include "data/feed.h"
#include "data/lines.h"

#define SAMPLE_BYTES \
    (1u << 20)           /* Lines of one set are alike; no more than an estimate is needed. */
#define UNPACK_FACTOR 4u /* Text packs about so well. */

struct sizes {
    uint64_t n_plain; /* Bytes of plain files, which can be cut. */
    uint64_t n_text;  /* Bytes of text of all files, about. */
    double row_bytes; /* Of text, about. */
};

static void add_up(const struct ps_source *source, struct sizes *sizes)
{
    for (uint32_t i = 0; i < source->n_files; i++) {
        const struct ps_source_file *file = &source->files[i];
        bool plain = file->packing == PS_PACKING_NONE;
        sizes->n_plain += plain ? file->n_bytes : 0;
        sizes->n_text += plain ? file->n_bytes : file->n_bytes * UNPACK_FACTOR;
    }
}

/* The first file that is not empty, a plain one if there is any. */
static uint32_t sample_file(const struct ps_source *source)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < source->n_files; i++) {
        const struct ps_source_file *file = &source->files[i];
        if (file->n_bytes > 0 && file->packing == PS_PACKING_NONE) {
            return i;
        }
        best = source->files[best].n_bytes > 0 ? best : i;
    }
    return best;
}

/* The mean length of the first lines. */
static enum ps_status sample(const struct ps_source *source, double *ret, struct ps_error *err)
{
    struct ps_lines *lines = ps_lines_create(source->mem, source);
    if (lines == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read data");
    }
    struct ps_line line;
    uint64_t n_bytes = 0;
    uint64_t n = 0;
    enum ps_status status =
        ps_lines_start(lines, ps_source_whole(source, sample_file(source)), err);
    while (status == PS_OK && n_bytes < SAMPLE_BYTES) {
        status = ps_lines_next(lines, &line, err);
        if (status != PS_OK || line.kind == PS_LINE_END) {
            break;
        }
        n += line.n_bytes > 0;
        n_bytes += line.n_bytes + 1;
    }
    ps_lines_destroy(lines);
    *ret = n > 0 ? (double)n_bytes / (double)n : (double)SAMPLE_BYTES;
    return status;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The size that makes at least `n_parts` parts of `n_bytes`, as few more as can be. */
static uint64_t cut(uint64_t n_bytes, uint64_t n_parts)
{
    uint64_t up = n_bytes / n_parts + (n_bytes % n_parts != 0);
    bool enough = up > 0 && n_bytes / up + (n_bytes % up != 0) >= n_parts;
    return most(enough ? up : n_bytes / n_parts, 1);
}

static uint64_t choose(const struct ps_feed_plan *plan, const struct sizes *sizes)
{
    if (sizes->n_plain == 0) {
        return PS_PART_BYTES_MAX; /* Packed files are what they are. */
    }
    double unit_bytes = sizes->row_bytes * (double)plan->unit_rows;
    uint64_t n_units = (uint64_t)((double)sizes->n_plain / unit_bytes) + 1;
    uint64_t n_parts = (uint64_t)plan->workers * PS_PARTS_PER_WORKER;
    n_parts = least(n_parts, most(n_units / PS_PART_UNITS, 1));
    n_parts = most(n_parts, least(n_units, plan->workers));
    return least(cut(sizes->n_plain, n_parts), PS_PART_BYTES_MAX);
}

/* Enlarge parts until there are few enough. */
static enum ps_status fit(const struct ps_source *source, struct ps_feed_plan *plan,
                          struct ps_error *err)
{
    uint64_t n_max = PS_LEASES_MAX / plan->epochs;
    uint64_t part_bytes = plan->part_bytes;
    while (ps_source_parts(source, part_bytes) > n_max && part_bytes < source->n_bytes) {
        part_bytes = part_bytes < source->n_bytes / 2 ? part_bytes * 2 : source->n_bytes;
    }
    uint64_t n_parts = ps_source_parts(source, part_bytes);
    if (n_parts > n_max) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%" PRIu64 " files of data in %" PRIu32
                       " epochs are more than %u leases: join files, or train fewer epochs",
                       n_parts, plan->epochs, PS_LEASES_MAX);
    }
    plan->part_bytes = part_bytes;
    plan->n_parts = (uint32_t)n_parts;
    return PS_OK;
}

enum ps_status ps_feed_plan(const struct ps_source *source,
                            const struct ps_description *description, struct ps_feed_plan *plan,
                            struct ps_error *err)
{
    PS_ASSERT(plan->unit_rows > 0);
    PS_ASSERT(plan->workers > 0);
    PS_ASSERT(plan->epochs > 0);
    struct sizes sizes = {0};
    add_up(source, &sizes);
    if (description->all_seen && description->n_rows > 0) {
        plan->rows_about = description->n_rows;
        sizes.row_bytes = (double)sizes.n_text / (double)description->n_rows;
    } else {
        enum ps_status status = sample(source, &sizes.row_bytes, err);
        if (status != PS_OK) {
            return status;
        }
        plan->rows_about = most((uint64_t)((double)sizes.n_text / sizes.row_bytes), 1);
    }
    plan->part_bytes = choose(plan, &sizes);
    return fit(source, plan, err);
}
