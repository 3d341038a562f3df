/*
 * fuzz_yaml.c — a job file: any bytes are read or refused with one line that names the place, what
 * was read is within its bounds, and every program of the job says the same of them.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/attr.h"
#include "base/limits.h"
#include "conf/conf.h"
#include "conf/file.h"
#include "conf/value.h"
#include "fuzz.h"

struct options {
    const char *data;
    const char *hosts;
    bool shuffle;
    uint32_t workers;
    double rate;
    uint64_t silence_ms;
    uint32_t durability;
    struct ps_u32_list hidden;
};

static const char *const durabilities[] = {"memory", "log", NULL};

#define AT(field) .offset = offsetof(struct options, field)

/* clang-format off */
static const struct ps_option train_rows[] = {
    {.name = "data", .help = "x", .type = PS_OPTION_STRING, .min = 1, .max = 100, AT(data)},
    {.name = "shuffle", .help = "x", .type = PS_OPTION_BOOL, AT(shuffle)},
    {.name = "lr", .help = "x", .type = PS_OPTION_F64, .f_min = 0, .f_max = 10, AT(rate)},
    {.name = "hidden", .help = "x", .type = PS_OPTION_LIST_U32, .min = 1, .max = 4096, AT(hidden)},
};
static const struct ps_option both_rows[] = {
    {.name = "workers", .help = "x", .type = PS_OPTION_U32, .min = 1, .max = 256, .preset = "1", AT(workers)},
    {.name = "silence", .help = "x", .type = PS_OPTION_DURATION_MS, .max = 60000, AT(silence_ms)},
    {.name = "durability", .help = "x", .type = PS_OPTION_ENUM, .words = durabilities, .preset = "memory", AT(durability)},
    {.name = "hosts", .help = "x", .type = PS_OPTION_STRING, .list = true, AT(hosts)},
};
/* clang-format on */

static const struct ps_option_table train_table = {train_rows, PS_ARRAY_LEN(train_rows)};
static const struct ps_option_table both_table = {both_rows, PS_ARRAY_LEN(both_rows)};
static const struct ps_option_use train_uses[] = {{&train_table, 0}, {&both_table, 0}};
static const struct ps_option_use serve_uses[] = {{&both_table, 0}};

static const struct ps_program *const job[3];
static const struct ps_program train = {
    .name = "train", .summary = "x", .uses = train_uses, .n_uses = 2, .job = job};
static const struct ps_program serve = {
    .name = "serve", .summary = "x", .uses = serve_uses, .n_uses = 1, .job = job};
static const struct ps_program *const job[3] = {&train, &serve, NULL};

/* Each entry is of a row that it fits; the texts live in the file. */
static void check_entries(const struct ps_conf_file *file, size_t n_bytes)
{
    for (const struct ps_conf_entry *at = file->first; at != NULL; at = at->next) {
        PS_ASSERT(at->section == NULL || at->section == &train || at->section == &serve);
        PS_ASSERT(at->line >= 1 && at->line <= n_bytes + 1);
        bool found = false;
        for (size_t i = 0; i < PS_ARRAY_LEN(train_uses) * 4; i++) {
            const struct ps_option *row = i < 4 ? &train_rows[i] : &both_rows[i - 4];
            if (strcmp(row->name, at->name) == 0) {
                struct options options = {0};
                found = ps_conf_store(row, &options, "x", at->text, NULL) == PS_OK;
                PS_ASSERT(isfinite(options.rate) && options.workers <= 256);
            }
        }
        PS_ASSERT(found);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct ps_conf_file files[2];
    struct ps_error errs[2] = {{0}};
    enum ps_status status[2];
    for (size_t i = 0; i < PS_ARRAY_LEN(files); i++) {
        status[i] = ps_conf_file_parse(&files[i], job[i], "job.yaml", data, n_bytes, &errs[i]);
        if (status[i] == PS_OK) {
            PS_ASSERT(n_bytes <= PS_JOB_FILE_BYTES_MAX);
            check_entries(&files[i], n_bytes);
        } else {
            PS_ASSERT(strncmp(errs[i].text, "job.yaml:", strlen("job.yaml:")) == 0);
            PS_ASSERT(strchr(errs[i].text, '\n') == NULL);
        }
        ps_conf_file_deinit(&files[i]);
    }
    PS_ASSERT(status[0] == status[1] && strcmp(errs[0].text, errs[1].text) == 0);
    return 0;
}
