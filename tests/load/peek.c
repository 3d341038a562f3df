/*
 * peek.c — ps-peek: the rows of a sparse table in a running cluster, keys 0 to n - 1, one line
 * each: the key and its values. It reads by pulls alone, as any client may.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <ps/client.h>

#include "base/error.h"
#include "conf/conf.h"
#include "os/process.h"

struct options {
    const char *coordinator;
    const char *table;
    uint32_t keys;
};

#define AT(field) .offset = offsetof(struct options, field)

static const struct ps_option rows[] = {
    {.name = "coordinator",
     .group = "Peek",
     .help = "Of the cluster.",
     .type = PS_OPTION_STRING,
     .required = true,
     AT(coordinator)},
    {.name = "table", .help = "Its name.", .type = PS_OPTION_STRING, .required = true, AT(table)},
    {.name = "keys",
     .help = "How many.",
     .type = PS_OPTION_U32,
     .min = 1,
     .max = 1000000,
     .required = true,
     AT(keys)},
};

static const struct ps_option_table table_of_rows = {rows, PS_ARRAY_LEN(rows)};
static const struct ps_option_use uses[] = {{&table_of_rows, 0}};
static const struct ps_program program = {
    .name = "ps-peek",
    .summary = "Rows of a sparse table as text. For tests.",
    .env_prefix = "PS_PEEK",
    .uses = uses,
    .n_uses = PS_ARRAY_LEN(uses),
};

static enum ps_status pull(struct ps_client *client, const struct ps_table *table, uint64_t *keys,
                           float *values, uint32_t n, struct ps_error *err)
{
    struct ps_keyed keyed = {.table = table->number, .n = n, .keys = keys, .values = values};
    struct ps_pull pull = {.keyed = &keyed, .n_keyed = 1, .no_clock = true};
    return ps_client_pull(client, &pull, err);
}

static void print(const uint64_t *keys, const float *values, uint32_t n, uint32_t width)
{
    for (uint32_t i = 0; i < n; i++) {
        (void)printf("%" PRIu64, keys[i]);
        for (uint32_t j = 0; j < width; j++) {
            (void)printf(" %.9g", (double)values[(size_t)i * width + j]);
        }
        (void)printf("\n");
    }
}

static enum ps_status peek(struct ps_client *client, const struct options *options,
                           struct ps_error *err)
{
    struct ps_table table;
    enum ps_status status = ps_client_table(client, options->table, &table, err);
    if (status != PS_OK) {
        return status;
    }
    if (table.width == 0) {
        return ps_fail(err, PS_ERR_INVALID, "table %s has no rows", options->table);
    }
    uint32_t n = options->keys;
    uint64_t *keys = calloc(n, sizeof(*keys));
    float *values = calloc((size_t)n * table.width, sizeof(*values));
    if (keys == NULL || values == NULL) {
        status = ps_fail(err, PS_ERR_NOMEM, "no memory");
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = i;
    }
    status = pull(client, &table, keys, values, n, err);
    if (status == PS_OK) {
        print(keys, values, n, table.width);
    }
out:
    free(keys);
    free(values);
    return status;
}

int main(int argc, char **argv)
{
    ps_os_open_standard_fds();
    ps_os_die_with_parent();
    struct ps_conf conf;
    static struct options options;
    struct ps_error err;
    switch (ps_conf_parse(&conf, &program, argc, argv, &options, &err)) {
    case PS_CONF_DONE: return 0;
    case PS_CONF_BAD: (void)fprintf(stderr, "ps-peek: %s\n", err.text); return 2;
    case PS_CONF_RUN: break;
    }
    struct ps_client_options how = {
        .coordinator = options.coordinator, .kind = PS_CLIENT_READER, .name = "peek"};
    struct ps_client *client = NULL;
    enum ps_status status = ps_client_open(&how, &client, &err);
    if (status == PS_OK) {
        status = peek(client, &options, &err);
    }
    ps_client_close(client);
    if (status != PS_OK) {
        (void)fprintf(stderr, "ps-peek: %s: %s\n", ps_status_text(status), err.text);
    }
    return status == PS_OK ? 0 : 1;
}
