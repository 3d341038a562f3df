/* datagen.c — ps-datagen: training data with a known answer. */
#include "datagen.h"

#include <string.h>

#include "base/mem.h"
#include "conf/conf.h"
#include "os/clock.h"
#include "os/process.h"

#define PATH_BYTES_MAX PS_CONF_TEXT_BYTES_MAX

enum {
    EXIT_BAD = 2,
    EXIT_INTERNAL = 70, /* No memory. */
    EXIT_DISK = 74
};

static bool is_one_of(const char *const *names, const char *name)
{
    for (; *names != NULL; names++) {
        if (strcmp(*names, name) == 0) {
            return true;
        }
    }
    return false;
}

/* A flag that the kind has no use for is a mistake about the kind. */
static enum ps_status check_shape(const struct datagen *gen, struct ps_error *err)
{
    static const char *const shape[] = {
        "features", "density", "rank", "classes", "noise", "users", "items", "keys",
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(shape); i++) {
        if (ps_conf_given(gen->conf, shape[i]) && !is_one_of(gen->kind->shape, shape[i])) {
            struct ps_conf_words words;
            return ps_fail(err, PS_ERR_INVALID, "%s means nothing for %s",
                           ps_conf_say(gen->conf, shape[i], &words), gen->kind->name);
        }
    }
    return PS_OK;
}

/* Kind and format, and the model behind them. */
static enum ps_status open_kind(struct datagen *gen, struct ps_error *err)
{
    gen->kind = datagen_find(gen->conf->positional[0]);
    if (gen->options.format == DATAGEN_FORMAT_COUNT) {
        gen->options.format = gen->kind->preset;
    }
    if (!gen->kind->formats[gen->options.format]) {
        struct ps_conf_words words;
        return ps_fail(err, PS_ERR_INVALID, "%s cannot say %s",
                       ps_conf_say(gen->conf, "format", &words), gen->kind->name);
    }
    enum ps_status status = check_shape(gen, err);
    if (status == PS_OK) {
        status = datagen_truth_open(&gen->truth, err);
    }
    return status == PS_OK ? gen->kind->open(gen, err) : status;
}

static enum ps_status answer_path(const struct datagen_options *options, char *to,
                                  struct ps_error *err)
{
    int n = 0;
    to[0] = '\0';
    if (options->answer != NULL) {
        n = snprintf(to, PATH_BYTES_MAX, "%s", options->answer);
    } else if (strcmp(options->out, "-") != 0) {
        n = snprintf(to, PATH_BYTES_MAX, "%s%s", options->out, DATAGEN_ANSWER_SUFFIX);
    }
    return n >= 0 && (size_t)n < PATH_BYTES_MAX
               ? PS_OK
               : ps_fail(err, PS_ERR_INVALID, "--out: a path has at most %u bytes", PATH_BYTES_MAX);
}

static enum ps_status write_rows(struct datagen *gen, uint64_t *ret_n_bytes, struct ps_error *err)
{
    const struct datagen_options *options = &gen->options;
    struct datagen_row row = {0};
    struct datagen_out out;
    row.features = ps_mem_array(NULL, PS_MEM_OTHER, gen->n_columns, sizeof(*row.features));
    if (row.features == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a row");
    }
    enum ps_status status = datagen_out_open(&out, gen, err);
    if (status == PS_OK) {
        if (options->first_row == 0) {
            datagen_put_header(&out, gen);
        }
        for (uint64_t i = 0; i < options->rows && !out.failed; i++) {
            gen->kind->make(gen, options->first_row + i, &row);
            datagen_put_row(&out, gen, &row);
        }
        status = datagen_out_close(&out, gen, err);
        *ret_n_bytes = out.n_bytes;
    }
    ps_mem_free(row.features);
    return status;
}

static enum ps_status make_all(struct datagen *gen, struct ps_error *err)
{
    char path[PATH_BYTES_MAX];
    FILE *answer = NULL;
    uint64_t n_bytes = 0;
    uint64_t start_ns = ps_clock_ns();
    enum ps_status status = answer_path(&gen->options, path, err);
    if (status == PS_OK) {
        status = open_kind(gen, err);
    }
    if (status == PS_OK && path[0] != '\0') {
        status = datagen_answer_open(gen, path, &answer, err);
    }
    if (status == PS_OK) {
        status = write_rows(gen, &n_bytes, err);
    }
    if (answer != NULL && status == PS_OK) {
        status = datagen_answer_close(gen, path, answer, err);
    } else if (answer != NULL) {
        (void)fclose(answer); /* Empty: there is nothing to say. */
    }
    if (status == PS_OK) {
        double seconds = (double)(ps_clock_ns() - start_ns) * 1e-9;
        datagen_answer_tell(gen, stderr);
        (void)fprintf(stderr, "ps-datagen: %.1f MB in %.1f s, %.0f MB/s\n", (double)n_bytes * 1e-6,
                      seconds, (double)n_bytes * 1e-6 / seconds);
    }
    return status;
}

static int exit_status(enum ps_status status)
{
    if (status == PS_OK) {
        return 0;
    }
    return status == PS_ERR_INVALID ? EXIT_BAD : status == PS_ERR_IO ? EXIT_DISK : EXIT_INTERNAL;
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    struct ps_conf conf;
    struct datagen gen = {.conf = &conf};
    struct ps_error err = {0};
    switch (ps_conf_parse(&conf, &datagen_program, argc, argv, &gen.options, &err)) {
    case PS_CONF_DONE: return ps_os_finish_stdout("ps-datagen");
    case PS_CONF_BAD: (void)fprintf(stderr, "ps-datagen: %s\n", err.text); return EXIT_BAD;
    case PS_CONF_RUN: break;
    }
    enum ps_status status = make_all(&gen, &err);
    if (status != PS_OK) {
        (void)fprintf(stderr, "ps-datagen: %s\n", err.text);
    }
    datagen_truth_close(&gen.truth);
    ps_mem_free(gen.weights);
    ps_mem_free(gen.factors);
    ps_conf_deinit(&conf);
    return exit_status(status);
}
