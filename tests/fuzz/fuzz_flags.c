/*
 * fuzz_flags.c — a command line of ps-worker's kind, one word per line: settings of every type, and
 * what was accepted is within its bounds.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/attr.h"
#include "conf/conf.h"
#include "fuzz.h"

#define WORDS_MAX      32u
#define WORD_BYTES_MAX 4096u

struct options {
    const char *data;
    bool shuffle;
    uint32_t workers;
    uint64_t seed;
    float scale;
    double rate;
    uint64_t memory_bytes;
    uint64_t silence_ms;
    uint32_t durability;
    struct ps_u32_list hidden;
};

static const char *const durabilities[] = {"memory", "log", NULL};

#define AT(field) .offset = offsetof(struct options, field)

/* clang-format off */
static const struct ps_option rows[] = {
    {.name = "data", .help = "x", .type = PS_OPTION_STRING, .group = "x", AT(data)},
    {.name = "shuffle", .help = "x", .type = PS_OPTION_BOOL, AT(shuffle)},
    {.name = "workers", .help = "x", .type = PS_OPTION_U32, .min = 1, .max = 256, .preset = "1", AT(workers)},
    {.name = "seed", .help = "x", .type = PS_OPTION_U64, AT(seed)},
    {.name = "scale", .help = "x", .type = PS_OPTION_F32, AT(scale)},
    {.name = "lr", .help = "x", .type = PS_OPTION_F64, .f_min = 0, .f_max = 10, AT(rate)},
    {.name = "memory-max", .help = "x", .type = PS_OPTION_BYTES, AT(memory_bytes)},
    {.name = "silence", .help = "x", .type = PS_OPTION_DURATION_MS, .max = 60000, AT(silence_ms)},
    {.name = "durability", .help = "x", .type = PS_OPTION_ENUM, .words = durabilities, .preset = "memory", AT(durability)},
    {.name = "hidden", .help = "x", .type = PS_OPTION_LIST_U32, .min = 1, .max = 4096, AT(hidden)},
};
/* clang-format on */

/* A fuzzer should open no files of any name, and its output is read by people. */
static bool reads_or_prints(const char *word)
{
    static const char *const starts[] = {"--help", "--version", "--print-config", "--config"};
    for (size_t i = 0; i < PS_ARRAY_LEN(starts); i++) {
        if (strncmp(word, starts[i], strlen(starts[i])) == 0) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const struct ps_option_table table = {.rows = rows, .n_rows = PS_ARRAY_LEN(rows)};
    static const struct ps_option_use uses[] = {{.table = &table}};
    static const struct ps_program program = {.name = "fuzz",
                                              .summary = "x",
                                              .env_prefix = "PS_FUZZED",
                                              .uses = uses,
                                              .n_uses = 1,
                                              .n_positional_max = 2};
    static char text[WORD_BYTES_MAX + 1];
    char *argv[WORDS_MAX + 1] = {text};
    int argc = 1;
    n_bytes = n_bytes < WORD_BYTES_MAX ? n_bytes : WORD_BYTES_MAX;
    memcpy(text, data, n_bytes);
    text[n_bytes] = '\0';
    for (char *at = text; at != NULL && argc < (int)WORDS_MAX;) {
        argv[argc++] = at;
        at = strchr(at, '\n');
        if (at != NULL) {
            *at++ = '\0';
        }
        if (reads_or_prints(argv[argc - 1])) {
            argc--;
        }
    }
    static struct ps_conf conf;
    static struct options options;
    struct ps_error err = {0};
    enum ps_conf_result result = ps_conf_parse(&conf, &program, argc, argv, &options, &err);
    if (result == PS_CONF_BAD) {
        PS_ASSERT(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
    }
    if (result != PS_CONF_RUN) {
        return 0; /* Refused, or help was asked for: -h. */
    }
    PS_ASSERT(options.workers >= 1 && options.workers <= 256 && options.silence_ms <= 60000);
    PS_ASSERT(isfinite(options.scale) && options.rate >= 0 && options.rate <= 10);
    PS_ASSERT(options.durability < 2 && options.hidden.n <= PS_CONF_LIST_MAX);
    return 0;
}
