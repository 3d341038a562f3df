/* psctl_model.c — see psctl_model.h. */
#include "psctl_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/attr.h"
#include "base/mem.h"
#include "conf/file.h"
#include "format/safetensors.h"
#include "num/blas.h"
#include "obs/log.h"
#include "os/process.h"
#include "train/live_rows.h"
#include "train/loop.h"
#include "train/model_note.h"

/* ---- Flags --------------------------------------------------------------------------------- */

/* Flags that say something to some of the commands only. */
static const struct {
    const char *flag;
    const char *commands;
} only[] = {
    {"model", "predict, eval, export"},
    {"data", "predict, eval"},
    {"output", "predict, export"},
    {"as", "export"},
    {"max-bad-rows", "predict, eval"},
    {"batch", "predict, eval"},
    {"index-base", "predict, eval"},
    {"list", "snapshot"},
    {"gather", "snapshot"},
    {"cut", "snapshot, restore"},
    {"json", "status, tables, shutdown, snapshot, restore, replay, eval"},
    {"data-dir", "replay"},
    {"snapshot-dir", "replay"},
    {"from", "replay"},
    {"to", "replay"},
};

/* In a job file a line `model:` for all programs names the kind that is trained. */
static bool model_given(const struct ps_conf *conf)
{
    bool own = ps_conf_source(conf, "model") != PS_CONF_FILE;
    for (const struct ps_conf_entry *entry = conf->file.first; entry != NULL; entry = entry->next) {
        own = own || (strcmp(entry->name, "model") == 0 && entry->section == conf->program);
    }
    return own && ps_conf_given(conf, "model");
}

/* The model of a file rather than that of a live cluster? */
static bool from_file(const struct ps_conf *conf)
{
    return model_given(conf) &&
           ps_conf_source(conf, "model") >= ps_conf_source(conf, "coordinator");
}

enum ps_status psctl_model_check(const struct ps_conf *conf, const struct psctl_options *options,
                                 struct ps_error *err)
{
    const char *command = conf->positional[0];
    struct ps_conf_words words;
    struct ps_conf_words more;
    for (size_t i = 0; i < PS_ARRAY_LEN(only); i++) {
        if (strstr(only[i].commands, command) == NULL &&
            ps_conf_source(conf, only[i].flag) == PS_CONF_FLAG) {
            return ps_fail(err, PS_ERR_INVALID, "%s is for %s, not for %s",
                           ps_conf_say(conf, only[i].flag, &words), only[i].commands, command);
        }
    }
    bool predicts = strcmp(command, "predict") == 0 || strcmp(command, "eval") == 0;
    bool exports = strcmp(command, "export") == 0;
    if (predicts && options->data == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "%s needs --data: the rows to look at", command);
    }
    if (exports && options->output == NULL) {
        return ps_fail(err, PS_ERR_INVALID, "export needs --output: a folder to write to");
    }
    if ((predicts || exports) && ps_conf_source(conf, "model") == PS_CONF_FLAG &&
        ps_conf_source(conf, "coordinator") == PS_CONF_FLAG) {
        return ps_fail(err, PS_ERR_INVALID,
                       "%s and %s contradict each other: a file, or a live cluster",
                       ps_conf_say(conf, "model", &words), ps_conf_say(conf, "coordinator", &more));
    }
    return PS_OK;
}

/* ---- Open ---------------------------------------------------------------------------------- */

static enum ps_status open_file(struct psctl_model *model, struct ps_error *err)
{
    char *setup = NULL;
    enum ps_status status =
        ps_model_file_map(model->options->model, model->path, &model->view, err);
    if (status != PS_OK) {
        return ps_wrap(err, status, "--model %s", model->options->model);
    }
    const uint8_t *data = model->view.data;
    size_t n_bytes = model->view.n_bytes;
    status = ps_safetensors_note(NULL, data, n_bytes, PS_MODEL_NOTE_SETUP, &setup, err);
    if (status == PS_OK && setup != NULL) {
        status = ps_model_file_read(NULL, data, n_bytes, &model->file, err);
    } else if (status == PS_OK) {
        status = ps_dense_file_read(NULL, data, n_bytes, &model->dense, err);
    }
    ps_mem_free(setup);
    if (status != PS_OK) {
        return ps_wrap(err, status, "%s", model->path);
    }
    if (model->file != NULL) {
        model->setup = ps_model_file_setup(model->file);
        model->source = ps_model_file_rows(model->file);
    }
    return PS_OK;
}

static enum ps_status read_live(struct psctl_model *model, const struct ps_cluster *cluster,
                                struct ps_error *err)
{
    if (!cluster->has_definition) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "nothing was trained there yet");
    }
    const char *text = cluster->definition.setup;
    if (text == NULL || text[0] == '\0') {
        return ps_fail(err, PS_ERR_UNSUPPORTED,
                       "its job does not say how its data are read (it trains images, or is of "
                       "another program): write the model with --out and use --model");
    }
    enum ps_status status = ps_setup_read(NULL, text, strlen(text), &model->live, err);
    if (status == PS_OK) {
        status = ps_setup_seed(model->live, cluster->definition.seed, err);
    }
    if (status == PS_OK) {
        status = ps_live_rows_open(NULL, model->client, model->live->model, &model->source, err);
    }
    model->setup = model->live;
    return status;
}

static enum ps_status open_live(struct psctl_model *model, struct ps_error *err)
{
    const struct psctl_options *options = model->options;
    struct ps_client_options client = {
        .coordinator = options->coordinator,
        .kind = PS_CLIENT_READER,
        .name = "psctl",
        .cluster_id = options->cluster_id,
        .open_timeout_ms =
            options->timeout_ms != 0 ? (uint32_t)options->timeout_ms : PSCTL_TIMEOUT_MS,
    };
    struct ps_cluster *cluster = NULL;
    ps_log_level_set(PS_LOG_ERROR);
    enum ps_status status = ps_client_open(&client, &model->client, err);
    if (status == PS_OK) {
        status = ps_client_describe(model->client, &cluster, err);
    }
    if (status == PS_OK) {
        status = read_live(model, cluster, err);
    }
    ps_cluster_free(cluster);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "--coordinator %s", options->coordinator);
}

static void close_model(struct psctl_model *model)
{
    ps_row_source_close(model->source);
    ps_model_file_close(model->file);
    ps_dense_file_close(&model->dense);
    ps_setup_destroy(model->live);
    ps_client_close(model->client);
    ps_file_unmap(&model->view);
}

/* ---- Commands ------------------------------------------------------------------------------ */

/* What a command does with a model of text, and with one of images. */
struct ways {
    enum ps_status (*text)(struct psctl_model *model, struct ps_error *err);
    enum ps_status (*images)(struct psctl_model *model, struct ps_error *err);
};

static int run(const struct ps_conf *conf, const struct psctl_options *options,
               const struct ways *ways)
{
    struct psctl_model model = {.options = options};
    struct ps_error err = {0};
    ps_blas_threads(1);
    enum ps_status status = from_file(conf) ? open_file(&model, &err) : open_live(&model, &err);
    if (status == PS_OK) {
        status = model.setup != NULL ? ways->text(&model, &err) : ways->images(&model, &err);
    }
    close_model(&model);
    if (status != PS_OK) {
        (void)fprintf(stderr, "psctl: %s\n", err.text);
        return ps_train_exit_status(status);
    }
    return ps_os_finish_stdout("psctl");
}

int psctl_predict(const struct ps_conf *conf, const struct psctl_options *options)
{
    static const struct ways ways = {psctl_text_predict, psctl_images_predict};
    return run(conf, options, &ways);
}

int psctl_eval(const struct ps_conf *conf, const struct psctl_options *options)
{
    static const struct ways ways = {psctl_text_eval, psctl_images_eval};
    return run(conf, options, &ways);
}

static enum ps_status no_text(struct psctl_model *model PS_UNUSED, struct ps_error *err)
{
    return ps_fail(err, PS_ERR_INVALID, "--as text is for models of text; use --as npy");
}

int psctl_export(const struct ps_conf *conf, const struct psctl_options *options)
{
    static const struct ways npy = {psctl_export_npy, psctl_export_npy};
    static const struct ways text = {psctl_export_text, no_text};
    return run(conf, options, options->as == PSCTL_AS_TEXT ? &text : &npy);
}

/* ---- Figures ------------------------------------------------------------------------------- */

static void add_figure(cJSON *json, const char *key, double value)
{
    char digits[40];
    if (!isnan(value)) {
        (void)snprintf(digits, sizeof(digits), "%.9g", value);
        (void)cJSON_AddRawToObject(json, key, isfinite(value) ? digits : "null");
    }
}

static enum ps_status print_json(const struct psctl_figures *figures, struct ps_error *err)
{
    cJSON *json = cJSON_CreateObject();
    add_figure(json, "rows", (double)figures->rows);
    add_figure(json, "rows_bad", (double)figures->rows_bad);
    add_figure(json, "loss", figures->loss);
    add_figure(json, "accuracy", figures->accuracy);
    add_figure(json, "log_loss", figures->log_loss);
    add_figure(json, "auc", figures->auc);
    add_figure(json, "rmse", figures->rmse);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    if (text == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the answer");
    }
    (void)puts(text);
    cJSON_free(text);
    return PS_OK;
}

static void print_figure(const char *name, double value)
{
    if (!isnan(value)) {
        (void)printf("%-12s %.6g\n", name, value);
    }
}

enum ps_status psctl_print_figures(const struct psctl_options *options,
                                   const struct psctl_figures *figures, struct ps_error *err)
{
    if (options->json) {
        return print_json(figures, err);
    }
    (void)printf("%-12s %" PRIu64 "\n", "rows", figures->rows);
    if (figures->rows_bad > 0) {
        (void)printf("%-12s %" PRIu64 "\n", "bad lines", figures->rows_bad);
    }
    print_figure("accuracy", figures->accuracy);
    print_figure("log loss", figures->log_loss);
    print_figure("AUC", figures->auc);
    print_figure("RMSE", figures->rmse);
    return PS_OK;
}
