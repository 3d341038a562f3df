/*
 * test_conf.c — settings as rows: each rule of reading one as a line of a table, the order of the
 * sources as examples, and any argv at all as a property (no crash, and nothing half done).
 */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "conf/conf.h"
#include "lib/test_main.h"
#include "suites.h"

struct inner {
    uint32_t n_rows;
    double rate;
};

struct options {
    bool aggregate;
    const char *data;
    uint32_t staleness;
    uint64_t seed;
    float scale;
    uint64_t memory_bytes;
    uint64_t silence_ms;
    uint32_t durability;
    struct ps_u32_list hidden;
    struct inner inner;
};

static const char *const durabilities[] = {"memory", "log", "fsync", NULL};

#define AT(field) .offset = offsetof(struct options, field)

/* clang-format off */
static const struct ps_option rows[] = {
    {.name = "data", .unit = "PATH", .help = "What to train on.", .type = PS_OPTION_STRING,
     .group = "Training", AT(data)},
    {.name = "aggregate", .help = "One step of all.", .type = PS_OPTION_BOOL, .preset = "false",
     AT(aggregate)},
    {.name = "staleness", .unit = "clocks", .help = "How far ahead.", .type = PS_OPTION_U32,
     .preset = "4", .max = 64, AT(staleness)},
    {.name = "seed", .help = "Of all chance.", .type = PS_OPTION_U64, .preset = "1", AT(seed)},
    {.name = "scale", .help = "A factor.", .type = PS_OPTION_F32, .preset = "1.0", AT(scale)},
    {.name = "memory-max", .help = "A budget.", .type = PS_OPTION_BYTES, .preset = "64MiB",
     .min = 1024, .group = "Cluster", AT(memory_bytes)},
    {.name = "silence", .help = "Dead after.", .type = PS_OPTION_DURATION_MS, .preset = "5s",
     .min = 100, .max = 60000, AT(silence_ms)},
    {.name = "durability", .help = "When a push is safe.", .type = PS_OPTION_ENUM,
     .preset = "memory", .words = durabilities, AT(durability)},
    {.name = "hidden", .help = "Widths.", .type = PS_OPTION_LIST_U32, .preset = "128", .min = 1,
     .max = 4096, AT(hidden)},
};

static const struct ps_option inner_rows[] = {
    {.name = "lr", .help = "Step size.", .type = PS_OPTION_F64, .preset = "0.1", .f_min = 0,
     .f_max = 10, .offset = offsetof(struct inner, rate)},
    {.name = "rows", .help = "How many.", .type = PS_OPTION_U32, .min = 1, .max = UINT32_MAX,
     .required = true, .offset = offsetof(struct inner, n_rows)},
};
/* clang-format on */

static const struct ps_option_table table = {rows, PS_ARRAY_LEN(rows)};
static const struct ps_option_table inner_table = {inner_rows, PS_ARRAY_LEN(inner_rows)};
static const struct ps_option_use uses[] = {
    {&table, 0},
    {&inner_table, offsetof(struct options, inner)},
};

static const struct ps_program program = {
    .name = "ps-try",
    .summary = "Tries settings.",
    .env_prefix = "PS_TRY",
    .uses = uses,
    .n_uses = PS_ARRAY_LEN(uses),
    .n_positional_max = 1,
};

/* argv is not const, by C's own custom. */
static char program_name[] = "ps-try";
static char rows_flag[] = "--rows=7";

#define ARGS_MAX 12

struct run {
    struct ps_conf conf;
    struct options options;
    struct ps_error err;
    enum ps_conf_result result;
};

/* Parse "--rows=7", which is required, and then the words of `line`, which are parted by blanks. */
static void run_line(struct run *run, const char *line)
{
    static char storage[512];
    char *argv[ARGS_MAX + 3] = {program_name, rows_flag};
    int argc = 2;
    (void)snprintf(storage, sizeof(storage), "%s", line);
    char *rest = NULL;
    for (char *word = strtok_r(storage, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        ck_assert_int_lt(argc, ARGS_MAX + 2);
        argv[argc++] = word;
    }
    *run = (struct run){0};
    run->result = ps_conf_parse(&run->conf, &program, argc, argv, &run->options, &run->err);
}

START_TEST(presets_fill_every_field)
{
    struct run run;
    run_line(&run, "");
    ck_assert_int_eq(run.result, PS_CONF_RUN);
    ck_assert_ptr_null(run.options.data);
    ck_assert(!run.options.aggregate);
    ck_assert_uint_eq(run.options.staleness, 4);
    ck_assert_uint_eq(run.options.seed, 1);
    ck_assert_double_eq((double)run.options.scale, 1.0);
    ck_assert_uint_eq(run.options.memory_bytes, 64u << 20);
    ck_assert_uint_eq(run.options.silence_ms, 5000);
    ck_assert_uint_eq(run.options.durability, 0);
    ck_assert_uint_eq(run.options.hidden.n, 1);
    ck_assert_uint_eq(run.options.hidden.values[0], 128);
    ck_assert_double_eq(run.options.inner.rate, 0.1);
    ck_assert_uint_eq(run.options.inner.n_rows, 7);
}
END_TEST

START_TEST(flags_are_read_in_both_forms)
{
    struct run run;
    run_line(&run, "--data mnist --staleness=0 --aggregate --hidden 128,64 --lr=1e-3 --durability "
                   "fsync");
    ck_assert_int_eq(run.result, PS_CONF_RUN);
    ck_assert_str_eq(run.options.data, "mnist");
    ck_assert_uint_eq(run.options.staleness, 0);
    ck_assert(run.options.aggregate);
    ck_assert_uint_eq(run.options.hidden.n, 2);
    ck_assert_uint_eq(run.options.hidden.values[1], 64);
    ck_assert_double_eq(run.options.inner.rate, 1e-3);
    ck_assert_uint_eq(run.options.durability, 2);
}
END_TEST

START_TEST(a_flag_wins_over_the_environment_which_wins_over_the_preset)
{
    struct run run;
    ck_assert_int_eq(setenv("PS_TRY_STALENESS", "9", 1), 0);
    ck_assert_int_eq(setenv("PS_TRY_MEMORY_MAX", "2KiB", 1), 0);
    ck_assert_int_eq(setenv("PS_TRY_SEED", "", 1), 0);
    run_line(&run, "--staleness 2");
    ck_assert_int_eq(run.result, PS_CONF_RUN);
    ck_assert_uint_eq(run.options.staleness, 2);
    ck_assert_uint_eq(run.options.memory_bytes, 2048);
    ck_assert_uint_eq(run.options.seed, 1);
    ck_assert_int_eq(ps_conf_source(&run.conf, "staleness"), PS_CONF_FLAG);
    ck_assert_int_eq(ps_conf_source(&run.conf, "memory-max"), PS_CONF_ENV);
    ck_assert_int_eq(ps_conf_source(&run.conf, "seed"), PS_CONF_PRESET);
    ck_assert(ps_conf_given(&run.conf, "memory-max"));
    ck_assert(!ps_conf_given(&run.conf, "seed"));
}
END_TEST

START_TEST(a_variable_of_kubernetes_is_refused_by_its_name)
{
    struct run run;
    ck_assert_int_eq(setenv("PS_TRY_STALENESS", "tcp://10.0.0.7:7070", 1), 0);
    run_line(&run, "");
    ck_assert_int_eq(run.result, PS_CONF_BAD);
    ck_assert_ptr_nonnull(strstr(run.err.text, "PS_TRY_STALENESS"));
    ck_assert_ptr_nonnull(strstr(run.err.text, "tcp://10.0.0.7:7070"));
}
END_TEST

START_TEST(variables_without_the_prefix_are_never_read)
{
    struct run run;
    ck_assert_int_eq(setenv("STALENESS", "9", 1), 0);
    ck_assert_int_eq(setenv("PS_STALENESS", "tcp://10.0.0.7:7070", 1), 0);
    ck_assert_int_eq(setenv("PS_TRY_PORT", "tcp://10.0.0.7:7070", 1), 0);
    run_line(&run, "");
    ck_assert_int_eq(run.result, PS_CONF_RUN);
    ck_assert_uint_eq(run.options.staleness, 4);
}
END_TEST

START_TEST(a_variable_that_is_no_setting_is_refused_unless_kubernetes_made_it)
{
    static const struct {
        const char *name, *value, *says; /* NULL: taken. */
    } cases[] = {
        {"PS_TRY_STALENES", "4",
         "variable PS_TRY_STALENES is no setting; did you mean "
         "PS_TRY_STALENESS?"},
        {"PS_TRY_MEMORYMAX", "4", "did you mean PS_TRY_MEMORY_MAX?"},
        {"PS_TRY_QQQQQQQQ", "4", "variable PS_TRY_QQQQQQQQ is no setting; see ps-try --help"},
        {"PS_TRY_HELP", "1", "variable PS_TRY_HELP is no setting"},
        {"PS_TRY_PRINT_CONFIG", "1", "variable PS_TRY_PRINT_CONFIG is no setting"},
        {"PS_TRY_staleness", "4", "did you mean PS_TRY_STALENESS?"},
        {"PS_TRY_PORT", "7070", "variable PS_TRY_PORT is no setting"},
        {"PS_TRY_STALENES", "", NULL},
        {"PS_TRYSTALENES", "4", NULL},
        {"PS_TRY", "4", NULL},
        {"PS_TRY_PORT", "tcp://10.0.0.7:7070", NULL},
        {"PS_TRY_SERVICE_HOST", "10.0.0.7", NULL},
        {"PS_TRY_SERVICE_PORT_RPC", "7070", NULL},
        {"PS_TRY_PORT_7070_TCP", "tcp://10.0.0.7:7070", NULL},
        {"PS_TRY_0_PORT_7070_TCP_ADDR", "10.0.0.7", NULL},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(cases); i++) {
        struct run run;
        ck_assert_int_eq(setenv(cases[i].name, cases[i].value, 1), 0);
        run_line(&run, "");
        ck_assert_msg((run.result == PS_CONF_RUN) == (cases[i].says == NULL), "%s: %s",
                      cases[i].name, run.err.text);
        ck_assert(cases[i].says == NULL || strstr(run.err.text, cases[i].says) != NULL);
        ck_assert_int_eq(unsetenv(cases[i].name), 0);
    }
}
END_TEST

/* One refusal: a command line, and what the message must say. */
static const struct {
    const char *line;
    const char *says;
} refusals[] = {
    {"--stalenes 4", "unknown flag --stalenes; did you mean --staleness?"},
    {"--stalness=4", "did you mean --staleness?"},
    {"--hepl", "did you mean --help?"},
    {"--xyzzyq", "unknown flag --xyzzyq; see ps-try --help"},
    {"-staleness 4", "unknown flag -staleness; flags start with --"},
    {"--staleness", "--staleness needs a value"},
    {"--staleness --aggregate", "--staleness needs a value"},
    {"--staleness 65", "--staleness: '65' is out of range: 0 to 64 clocks"},
    {"--staleness -1", "--staleness: '-1' is not a whole number"},
    {"--staleness 4x", "'4x' is not a whole number"},
    {"--staleness 0x4", "'0x4' is not a whole number"},
    {"--staleness=", "--staleness: '' is not a whole number"},
    {"--seed 18446744073709551616", "is not a whole number"},
    {"--staleness 2 --staleness 2", "--staleness is given twice"},
    {"--aggregate --no-aggregate", "--aggregate is given twice"},
    {"--no-aggregate=true", "--no-aggregate takes no value"},
    {"--aggregate=maybe", "'maybe' is neither true nor false"},
    {"--no-staleness", "unknown flag --no-staleness"},
    {"--lr nan", "'nan' is not a finite number"},
    {"--lr inf", "'inf' is not a finite number"},
    {"--lr 1e999", "'1e999' is not a finite number"},
    {"--lr 0,1", "'0,1' is not a finite number"},
    {"--lr 0x1p3", "'0x1p3' is not a finite number"},
    {"--lr 11", "--lr: '11' is out of range: 0 to 10"},
    {"--lr -0.1", "out of range"},
    {"--scale 1e39", "--scale: '1e39' is too large"},
    {"--memory-max 1000", "--memory-max: '1000' is out of range: 1024 and more"},
    {"--memory-max 64Mi", "'64Mi' is not a size"},
    {"--memory-max 99999999TiB", "is not a size"},
    {"--silence 5", "'5' is not a time with a unit"},
    {"--silence 2m1s", "is not a time with a unit"},
    {"--silence 50ms", "--silence: '50ms' is out of range: 100 to 60000 ms"},
    {"--durability disk", "--durability: 'disk' is none of memory|log|fsync"},
    {"--hidden 128,,64", "is not a list"},
    {"--hidden 128,64,", "is not a list"},
    {"--hidden 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "at most 16 whole numbers"},
    {"--hidden 128,0", "out of range: 1 to 4096"},
    {"one two", "unexpected argument 'two'"},
    {"--rows=8", "--rows is given twice"},
};

START_TEST(a_bad_line_is_refused_with_one_line_that_says_why)
{
    struct run run;
    run_line(&run, refusals[_i].line);
    ck_assert_msg(run.result == PS_CONF_BAD, "'%s' was taken", refusals[_i].line);
    ck_assert_msg(strstr(run.err.text, refusals[_i].says) != NULL, "'%s' said: %s",
                  refusals[_i].line, run.err.text);
    ck_assert_ptr_null(strchr(run.err.text, '\n'));
}
END_TEST

/* Numbers that are taken: a flag's text and what stands in the struct, as a double. */
static const struct {
    const char *line;
    size_t offset;
    double want;
} numbers[] = {
    {"--memory-max=1.5KiB", offsetof(struct options, memory_bytes), 1536},
    {"--memory-max=10MB", offsetof(struct options, memory_bytes), 1e7},
    {"--memory-max=4096", offsetof(struct options, memory_bytes), 4096},
    {"--memory-max=4096B", offsetof(struct options, memory_bytes), 4096},
    {"--memory-max=2TiB", offsetof(struct options, memory_bytes), 2199023255552.0},
    {"--silence=250ms", offsetof(struct options, silence_ms), 250},
    {"--silence=1.5s", offsetof(struct options, silence_ms), 1500},
    {"--silence=0.5m", offsetof(struct options, silence_ms), 30000},
    {"--seed=9007199254740992", offsetof(struct options, seed), 9007199254740992.0},
};

START_TEST(units_are_read_exactly)
{
    struct run run;
    run_line(&run, numbers[_i].line);
    ck_assert_msg(run.result == PS_CONF_RUN, "%s", run.err.text);
    uint64_t got = 0;
    memcpy(&got, (const char *)&run.options + numbers[_i].offset, sizeof(got));
    ck_assert_msg((double)got == numbers[_i].want, "%s gave %llu", numbers[_i].line,
                  (unsigned long long)got);
}
END_TEST

START_TEST(a_required_setting_may_come_from_the_environment_only)
{
    char *argv[] = {program_name};
    struct run run = {0};
    run.result = ps_conf_parse(&run.conf, &program, 1, argv, &run.options, &run.err);
    ck_assert_int_eq(run.result, PS_CONF_BAD);
    ck_assert_str_eq(run.err.text, "--rows N is required");
    ck_assert_int_eq(setenv("PS_TRY_ROWS", "3", 1), 0);
    run.result = ps_conf_parse(&run.conf, &program, 1, argv, &run.options, &run.err);
    ck_assert_int_eq(run.result, PS_CONF_RUN);
    ck_assert_uint_eq(run.options.inner.n_rows, 3);
}
END_TEST

START_TEST(words_beside_flags_are_kept_and_all_is_a_word_after_two_dashes)
{
    struct run run;
    run_line(&run, "--staleness 2 status");
    ck_assert_uint_eq(run.conf.n_positional, 1);
    ck_assert_str_eq(run.conf.positional[0], "status");
    run_line(&run, "-- --staleness");
    ck_assert_int_eq(run.result, PS_CONF_RUN);
    ck_assert_str_eq(run.conf.positional[0], "--staleness");
}
END_TEST

START_TEST(a_program_of_commands_wants_one_of_them)
{
    static const struct ps_command commands[] = {{"status", "S."}, {"tables", "T."}};
    static const struct ps_program ctl = {.name = "ctl",
                                          .summary = "C.",
                                          .commands = commands,
                                          .n_commands = 2,
                                          .n_positional_max = 1};
    static const struct {
        const char *word, *says;
    } cases[] = {
        {"status", NULL},
        {"statsu", "unknown command 'statsu'; did you mean 'status'?"},
        {"qqqqqqqq", "unknown command 'qqqqqqqq'; there are status, tables"},
        {NULL, "no command; there are status, tables"},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(cases); i++) {
        char word[16] = "";
        char *argv[] = {program_name, word};
        struct run run = {0};
        (void)snprintf(word, sizeof(word), "%s", cases[i].word != NULL ? cases[i].word : "");
        int argc = cases[i].word != NULL ? 2 : 1;
        run.result = ps_conf_parse(&run.conf, &ctl, argc, argv, &run.options, &run.err);
        ck_assert_int_eq(run.result, cases[i].says == NULL ? PS_CONF_RUN : PS_CONF_BAD);
        ck_assert(cases[i].says == NULL || strcmp(run.err.text, cases[i].says) == 0);
    }
}
END_TEST

START_TEST(what_was_given_can_be_handed_on_and_means_the_same_again)
{
    struct run run;
    ck_assert_int_eq(setenv("PS_TRY_SEED", "5", 1), 0);
    run_line(&run, "--no-aggregate --hidden 3,4 --silence=2s");
    size_t at = 0;
    const char *name = NULL;
    const char *text = NULL;
    char line[256] = "";
    while (ps_conf_next_given(&run.conf, &table, &at, &name, &text)) {
        size_t used = strlen(line);
        (void)snprintf(line + used, sizeof(line) - used, " --%s=%s", name, text);
    }
    ck_assert_str_eq(line, " --aggregate=false --seed=5 --silence=2s --hidden=3,4");
    ck_assert_int_eq(unsetenv("PS_TRY_SEED"), 0);
    struct run again;
    run_line(&again, line);
    ck_assert_int_eq(again.result, PS_CONF_RUN);
    ck_assert_mem_eq(&again.options, &run.options, sizeof(run.options));
}
END_TEST

START_TEST(numbers_are_read_the_same_in_a_locale_with_commas)
{
    struct run run;
    /* Not every machine has the locale; with plain "C" the test still checks the value. */
    (void)setlocale(LC_ALL, "de_DE.UTF-8");
    run_line(&run, "--lr 0.25");
    ck_assert_int_eq(run.result, PS_CONF_RUN);
    ck_assert_double_eq(run.options.inner.rate, 0.25);
}
END_TEST

START_TEST(help_wins_over_errors_and_names_every_flag_within_100_columns)
{
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *out = open_memstream(&text, &n_bytes);
    ps_conf_help(&program, out);
    ck_assert_int_eq(fclose(out), 0);
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        char flag[64];
        (void)snprintf(flag, sizeof(flag), "--%s", rows[i].name);
        ck_assert_msg(strstr(text, flag) != NULL, "%s is not in: %s", flag, text);
    }
    ck_assert_ptr_nonnull(strstr(text, "[preset 4; 0 to 64 clocks]"));
    ck_assert_ptr_nonnull(strstr(text, "\nTraining\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nCluster\n"));
    ck_assert_ptr_nonnull(strstr(text, "memory|log|fsync"));
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        ck_assert_uint_le(strcspn(line, "\n"), 100);
    }
    free(text);
    struct run run;
    run_line(&run, "--bogus --help");
    ck_assert_int_eq(run.result, PS_CONF_DONE);
    run_line(&run, "--version --lr nan");
    ck_assert_int_eq(run.result, PS_CONF_DONE);
}
END_TEST

/* Words that a fuzzer would find: parts of flags, numbers at their ends, and rubbish. */
static const char *const soup[] = {
    "--",
    "-",
    "--=",
    "--no-",
    "--no-data",
    "--staleness",
    "=",
    "--data",
    "--lr=",
    "--hidden=",
    "--hidden=1,,",
    "1e308",
    "-0",
    "\xff\xfe",
    "--=--",
    "--silence=",
    "99999999999999999999999",
    "--aggregate=",
    "--memory-max=0x",
    "--no-aggregate",
    "%s%n",
    "--%s%n=%n",
};

START_TEST(any_command_line_is_either_taken_or_refused_with_words)
{
    struct ps_rng rng = ps_rng_from(test_seed());
    for (int round = 0; round < 20000; round++) {
        char line[256] = "";
        for (uint64_t n = ps_rng_below(&rng, ARGS_MAX); n > 0; n--) {
            size_t used = strlen(line);
            const char *word = soup[ps_rng_below(&rng, PS_ARRAY_LEN(soup))];
            (void)snprintf(line + used, sizeof(line) - used, " %s", word);
        }
        struct run run;
        run_line(&run, line);
        ck_assert_msg(run.result != PS_CONF_DONE, "seed %llu: '%s' printed",
                      (unsigned long long)test_seed(), line);
        ck_assert_msg((run.result == PS_CONF_BAD) == (run.err.text[0] != '\0'),
                      "seed %llu: '%s' gave %d and '%s'", (unsigned long long)test_seed(), line,
                      (int)run.result, run.err.text);
    }
}
END_TEST

START_TEST(a_preset_out_of_its_own_range_is_an_assertion)
{
    static const struct ps_option wrong[] = {
        {.name = "n", .help = "N.", .type = PS_OPTION_U32, .preset = "9", .max = 8},
    };
    static const struct ps_option_table wrong_table = {wrong, 1};
    static const struct ps_option_use wrong_use[] = {{&wrong_table, 0}};
    static const struct ps_program bad = {
        .name = "bad", .summary = "Bad.", .uses = wrong_use, .n_uses = 1};
    char *argv[] = {program_name};
    uint32_t n = 0;
    struct ps_conf conf;
    (void)!ps_conf_parse(&conf, &bad, 1, argv, &n, NULL);
}
END_TEST

Suite *suite_rows(void)
{
    Suite *suite = suite_create("conf");
    TCase *tcase = tcase_create("rows");
    tcase_add_test(tcase, presets_fill_every_field);
    tcase_add_test(tcase, flags_are_read_in_both_forms);
    tcase_add_test(tcase, a_flag_wins_over_the_environment_which_wins_over_the_preset);
    tcase_add_test(tcase, a_variable_of_kubernetes_is_refused_by_its_name);
    tcase_add_test(tcase, a_variable_that_is_no_setting_is_refused_unless_kubernetes_made_it);
    tcase_add_test(tcase, variables_without_the_prefix_are_never_read);
    tcase_add_loop_test(tcase, a_bad_line_is_refused_with_one_line_that_says_why, 0,
                        (int)PS_ARRAY_LEN(refusals));
    tcase_add_loop_test(tcase, units_are_read_exactly, 0, (int)PS_ARRAY_LEN(numbers));
    tcase_add_test(tcase, a_required_setting_may_come_from_the_environment_only);
    tcase_add_test(tcase, words_beside_flags_are_kept_and_all_is_a_word_after_two_dashes);
    tcase_add_test(tcase, a_program_of_commands_wants_one_of_them);
    tcase_add_test(tcase, what_was_given_can_be_handed_on_and_means_the_same_again);
    tcase_add_test(tcase, numbers_are_read_the_same_in_a_locale_with_commas);
    tcase_add_test(tcase, help_wins_over_errors_and_names_every_flag_within_100_columns);
    tcase_add_test(tcase, any_command_line_is_either_taken_or_refused_with_words);
    tcase_add_test_raise_signal(tcase, a_preset_out_of_its_own_range_is_an_assertion, SIGABRT);
    suite_add_tcase(suite, tcase);
    return suite;
}
