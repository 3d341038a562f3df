/* learning.c — see learning.h. */
#include "data/learning.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/mem.h"
#include "data/decimal.h"

#define HEAD_LINES    64u        /* Enough to tell formats apart. */
#define HEAD_BYTES    (1u << 20) /* No more after that; one line may be longer. */
#define PIECE_BYTES   (1u << 20) /* Of a file that can be cut, when only pieces are looked at. */
#define CHECK_BYTES   (4u << 20) /* For a look at other data. */
#define UNPACK_FACTOR 4u         /* Text packs about so well. */
#define WHY_BYTES     160u

static uint64_t text_bytes(const struct ps_source_file *file)
{
    if (file->packing == PS_PACKING_NONE) {
        return file->n_bytes;
    }
    uint64_t n = file->n_bytes * UNPACK_FACTOR;
    return n > file->n_text_min ? n : file->n_text_min;
}

static uint64_t all_text_bytes(const struct ps_source *source)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < source->n_files; i++) {
        n += text_bytes(&source->files[i]);
    }
    return n;
}

/* How many pieces of file number part.file are looked at, and how many bytes of each. */
static void plan_file(struct ps_learning *learning, uint64_t n_budget)
{
    const struct ps_source_file *file = &learning->source->files[learning->part.file];
    learning->piece = 0;
    learning->n_pieces = file->n_bytes > 0;
    learning->n_left = UINT64_MAX;
    if (learning->whole) {
        return;
    }
    double part = (double)text_bytes(file) / (double)all_text_bytes(learning->source);
    uint64_t share = (uint64_t)((double)n_budget * part) + 1;
    if (file->packing != PS_PACKING_NONE) {
        learning->n_left = share;
    } else if (share < file->n_bytes) {
        learning->n_pieces = share / PIECE_BYTES + 1;
    }
}

static struct ps_part piece_at(const struct ps_learning *learning)
{
    struct ps_part part = ps_source_whole(learning->source, learning->part.file);
    if (learning->n_pieces > 1) {
        part.begin = part.end / learning->n_pieces * learning->piece;
    }
    if (!learning->whole && part.end - part.begin > PIECE_BYTES &&
        learning->source->files[part.file].packing == PS_PACKING_NONE) {
        part.end = part.begin + PIECE_BYTES;
    }
    return part;
}

/* Go to the next piece; `begun` is false when there is none. */
static enum ps_status next_piece(struct ps_learning *learning, struct ps_error *err)
{
    learning->piece++;
    while (learning->piece >= learning->n_pieces) {
        if (learning->part.file + 1 >= learning->source->n_files) {
            return PS_OK;
        }
        learning->part.file++;
        plan_file(learning, learning->options->learn_bytes);
    }
    learning->part = piece_at(learning);
    learning->begun = true;
    return ps_lines_start(learning->lines, learning->part, err);
}

/* To before the first piece. */
static void rewind_sample(struct ps_learning *learning)
{
    learning->part = (struct ps_part){0};
    learning->begun = false;
    learning->n_budget = learning->options->learn_bytes;
    plan_file(learning, learning->n_budget);
    learning->piece = UINT64_MAX; /* One before the first. */
}

static bool is_blank(const struct ps_line *line)
{
    for (size_t i = 0; i < line->n_bytes; i++) {
        if (line->text[i] != ' ' && line->text[i] != '\t') {
            return false;
        }
    }
    return line->kind == PS_LINE_TEXT;
}

/* Take the line off what may still be read; false when that was all. */
static bool spend(struct ps_learning *learning, const struct ps_line *line)
{
    uint64_t n = line->n_bytes + 1;
    if (!learning->whole) {
        learning->n_budget -= n < learning->n_budget ? n : learning->n_budget;
        learning->n_left -= n < learning->n_left ? n : learning->n_left;
    }
    return learning->n_budget > 0 && learning->n_left > 0;
}

enum ps_status ps_learning_next(struct ps_learning *learning, struct ps_line *ret,
                                struct ps_error *err)
{
    for (;;) {
        enum ps_status status = learning->begun ? PS_OK : next_piece(learning, err);
        if (status != PS_OK) {
            return status;
        }
        if (!learning->begun || learning->n_budget == 0) {
            *ret = (struct ps_line){.text = "", .kind = PS_LINE_END};
            learning->description->all_seen = learning->whole;
            return PS_OK;
        }
        status = ps_lines_next(learning->lines, ret, err);
        if (status != PS_OK) {
            return status;
        }
        learning->begun = ret->kind != PS_LINE_END && spend(learning, ret);
        if (ret->kind != PS_LINE_END && !is_blank(ret)) {
            return PS_OK;
        }
    }
}

enum ps_status ps_learning_bad(struct ps_learning *learning, const struct ps_line *line,
                               enum ps_status status, struct ps_error *err)
{
    if (status == PS_ERR_INVALID && learning->n_bad < learning->options->max_bad_rows) {
        learning->n_bad++;
        return PS_OK;
    }
    return ps_lines_wrap(learning->lines, line->number, status, err);
}

bool ps_learning_at_start(const struct ps_learning *learning, const struct ps_line *line)
{
    return learning->part.begin == 0 && line->number == 1;
}

/* Refuse a label more than the task takes. */
static enum ps_status check_room(const struct ps_learning *learning, const char *text,
                                 size_t n_bytes, struct ps_error *err)
{
    const struct ps_labels *labels = &learning->description->labels;
    if (learning->description->task != PS_TASK_BINARY || labels->n < 2) {
        return PS_OK;
    }
    char shown[PS_FOUND_BYTES];
    return ps_fail(err, PS_ERR_INVALID,
                   "'%s' is a third label beside '%.20s' and '%.20s', expected two: softmax takes "
                   "more, linear takes numbers%s",
                   ps_found(shown, text, n_bytes), labels->at[0].text, labels->at[1].text,
                   learning->description->n_columns > 0 ? "; or --label names another column" : "");
}

static void add_value(struct ps_learning *learning, bool good, float number)
{
    if (good) {
        double delta = (double)number - learning->label_mean;
        learning->n_labels++;
        learning->label_mean += delta / (double)learning->n_labels;
        learning->label_m2 += delta * ((double)number - learning->label_mean);
    }
}

/* A label that is not among those given is told when it is met again in training. */
enum ps_status ps_learning_label(struct ps_learning *learning, const char *text, size_t n_bytes,
                                 struct ps_error *err)
{
    struct ps_description *description = learning->description;
    float number = 0.0f;
    uint32_t found = 0;
    if (ps_decimal_whole(text, n_bytes, &number)) {
        return ps_learning_label_number(learning, number, err);
    }
    if (description->task == PS_TASK_VALUE) {
        struct ps_parse parse = {.description = description};
        enum ps_status found_out = ps_parse_label(&parse, text, n_bytes, &number, err);
        add_value(learning, found_out == PS_OK, number);
        return found_out;
    }
    if (description->labels.given || ps_labels_find(&description->labels, text, n_bytes, &found)) {
        return PS_OK;
    }
    enum ps_status status = check_room(learning, text, n_bytes, err);
    return status == PS_OK ? ps_labels_add(&description->labels, text, n_bytes, err) : status;
}

enum ps_status ps_learning_label_number(struct ps_learning *learning, float number,
                                        struct ps_error *err)
{
    struct ps_description *description = learning->description;
    uint32_t found = 0;
    if (description->task == PS_TASK_VALUE) {
        struct ps_parse parse = {.description = description};
        enum ps_status status = ps_parse_label_number(&parse, number, &number, err);
        add_value(learning, status == PS_OK, number);
        return status;
    }
    if (description->labels.given || ps_labels_find_number(&description->labels, number, &found)) {
        return PS_OK;
    }
    char text[32];
    int n = snprintf(text, sizeof(text), "%.9g", (double)number);
    enum ps_status status = check_room(learning, text, n < 0 ? 0 : (size_t)n, err);
    return status == PS_OK ? ps_labels_add_number(&description->labels, number, err) : status;
}

/* Copy the first lines, then point at them. */
static enum ps_status read_head(struct ps_learning *learning, struct ps_line lines[HEAD_LINES],
                                struct ps_error *err)
{
    uint32_t n_lines = 0;
    size_t used = 0;
    struct ps_line line = {0};
    enum ps_status status = PS_OK;
    while (n_lines < HEAD_LINES && used < HEAD_BYTES) {
        status = ps_learning_next(learning, &line, err);
        if (status != PS_OK || line.kind == PS_LINE_END) {
            break;
        }
        if (line.kind != PS_LINE_TEXT) {
            learning->binary = learning->binary || line.kind == PS_LINE_BINARY;
            continue;
        }
        char *text = ps_mem_grow(learning->options->mem, PS_MEM_DATA, learning->head_text,
                                 used + line.n_bytes + 1);
        if (text == NULL) {
            return ps_fail(err, PS_ERR_NOMEM, "no memory for the first lines");
        }
        memcpy(text + used, line.text, line.n_bytes); /* The 0 behind it is there. */
        learning->head_text = text;
        lines[n_lines++] = line;
        used += line.n_bytes + 1;
    }
    const char *at = learning->head_text;
    for (uint32_t i = 0; i < n_lines; i++) {
        lines[i].text = at;
        at += lines[i].n_bytes + 1;
    }
    learning->head =
        (struct ps_head){.lines = lines, .n_lines = n_lines, .whole = line.kind == PS_LINE_END};
    if (status == PS_OK && n_lines == 0) {
        return ps_fail(err, PS_ERR_INVALID, "'%s' holds no lines of text%s",
                       learning->source->files[0].path,
                       learning->binary ? ", but bytes 0 (images are read by --format idx)" : "");
    }
    return status;
}

static enum ps_status pick_format(struct ps_learning *learning, char why[WHY_BYTES],
                                  struct ps_error *err)
{
    const char *name = learning->options->format;
    const struct ps_format **format = &learning->description->format;
    if (name != NULL && strcmp(name, "auto") != 0) {
        *format = ps_format_find(name);
        (void)snprintf(why, WHY_BYTES, "as asked for");
        return *format != NULL
                   ? PS_OK
                   : ps_fail(err, PS_ERR_INVALID, "no format of lines is called '%s'", name);
    }
    enum ps_status status = ps_format_guess(&learning->head, format, why, WHY_BYTES, err);
    return status == PS_OK
               ? PS_OK
               : ps_wrap(err, status, "'%s'%s", learning->source->files[0].path,
                         learning->binary ? " (not text; of IDX files, name their folder)" : "");
}

/* A flag that means nothing for the format is a mistake of somebody. */
static enum ps_status check_flags(const struct ps_learning *learning, struct ps_error *err)
{
    const struct ps_learn_options *options = learning->options;
    const struct ps_format *format = learning->description->format;
    bool table = format->header != NULL;
    const struct {
        const char *flag;
        bool wrong;
    } flags[] = {
        {"--label", options->label != NULL && !table},
        {"--categorical", options->categorical != NULL && !table},
        {"--numeric", options->numeric != NULL && !table},
        {"--ignore", options->ignore != NULL && !table},
        {"--header", options->header != PS_CHOICE_AUTO && !table},
        {"--index-base", options->zero_based != PS_CHOICE_AUTO && format != &ps_format_libsvm},
        {"--standardize", options->standardize == PS_CHOICE_YES && format == &ps_format_criteo},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(flags); i++) {
        if (flags[i].wrong) {
            return ps_fail(err, PS_ERR_INVALID, "%s has no meaning for %s data ('%s')",
                           flags[i].flag, format->name, learning->source->files[0].path);
        }
    }
    return PS_OK;
}

static void say(struct ps_learning *learning, const char *why)
{
    struct ps_description *description = learning->description;
    char labels[96];
    ps_labels_text(&description->labels, labels, sizeof(labels));
    (void)snprintf(description->said, sizeof(description->said),
                   "%s (%s); %s; %" PRIu64 " rows%s%s%s", description->format->name, why,
                   learning->note, description->n_rows, description->all_seen ? "" : " looked at",
                   labels[0] != '\0' ? "; label " : "", labels);
}

static enum ps_status learn(struct ps_learning *learning, struct ps_error *err)
{
    const struct ps_learn_options *options = learning->options;
    struct ps_description *description = learning->description;
    struct ps_line lines[HEAD_LINES];
    char why[WHY_BYTES] = "";
    enum ps_status status = read_head(learning, lines, err);
    if (status == PS_OK) {
        status = pick_format(learning, why, err);
    }
    if (status == PS_OK) {
        status = check_flags(learning, err);
    }
    if (status == PS_OK && options->labels != NULL && description->task != PS_TASK_VALUE) {
        status = ps_labels_give(&description->labels, options->labels, err);
    }
    if (status != PS_OK) {
        return status;
    }
    rewind_sample(learning);
    learning->n_bad = 0; /* Those of the head come again. */
    status = description->format->learn(learning, err);
    if (status == PS_OK) {
        status = ps_description_check_labels(description, err);
    }
    if (status == PS_OK && description->n_rows == 0) {
        status =
            ps_fail(err, PS_ERR_INVALID, "'%s' holds no rows", learning->source->files[0].path);
    }
    if (status == PS_OK) {
        description->n_bad = learning->n_bad;
        description->label_mean = learning->label_mean;
        description->label_deviation =
            learning->n_labels > 0 ? sqrt(learning->label_m2 / (double)learning->n_labels) : 0.0;
        say(learning, why);
    }
    return status;
}

/* Run `what` over a sample of the source. */
static enum ps_status look(struct ps_learning *learning,
                           enum ps_status (*what)(struct ps_learning *, struct ps_error *),
                           struct ps_error *err)
{
    learning->lines = ps_lines_create(learning->options->mem, learning->source);
    if (learning->lines == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to read data");
    }
    learning->whole = all_text_bytes(learning->source) <= learning->options->learn_bytes;
    rewind_sample(learning);
    enum ps_status status = what(learning, err);
    ps_mem_free(learning->head_text);
    ps_lines_destroy(learning->lines);
    return status;
}

enum ps_status ps_learn(const struct ps_source *source, const struct ps_learn_options *options,
                        struct ps_description **ret, struct ps_error *err)
{
    struct ps_learn_options full = *options;
    full.learn_bytes = full.learn_bytes == 0 ? PS_LEARN_BYTES : full.learn_bytes;
    struct ps_description *description = ps_description_create(options->mem);
    if (description == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory to describe data");
    }
    description->task = options->task;
    struct ps_learning learning = {.source = source, .options = &full, .description = description};
    enum ps_status status = look(&learning, learn, err);
    if (status != PS_OK) {
        ps_description_destroy(description);
        return status;
    }
    *ret = description;
    return PS_OK;
}

static enum ps_status check(struct ps_learning *learning, struct ps_error *err)
{
    return learning->description->format->check(learning, err);
}

enum ps_status ps_learn_check(struct ps_mem *mem, const struct ps_source *source,
                              const struct ps_description *description, struct ps_error *err)
{
    if (description->format->check == NULL) {
        return PS_OK;
    }
    struct ps_learn_options options = {
        .mem = mem,
        .task = description->task,
        .learn_bytes = CHECK_BYTES,
        .max_bad_rows = UINT64_MAX, /* Reading tells of them. */
    };
    struct ps_description copy = *description; /* `all_seen` is written. */
    struct ps_learning learning = {.source = source, .options = &options, .description = &copy};
    return look(&learning, check, err);
}
