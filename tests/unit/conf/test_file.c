/*
 * test_file.c — job files: each refusal as a line of a table, which source wins as examples, and
 * --print-config as a file that says the same again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/mem.h"
#include "conf/conf.h"
#include "conf/file.h"
#include "lib/test_main.h"
#include "suites.h"

struct options {
    const char *data;
    const char *name;
    const char *token;
    const char *hosts;
    bool aggregate;
    bool center;
    uint32_t staleness;
    uint32_t level;
    float rate;
    uint64_t memory_bytes;
    uint64_t silence_ms;
    struct ps_u32_list hidden;
};

static const char *const levels[] = {"warn", "info", NULL};

#define AT(field) .offset = offsetof(struct options, field)

/* clang-format off */
static const struct ps_option train_rows[] = {
    {.name = "data", .help = "x", .type = PS_OPTION_STRING, AT(data)},
    {.name = "aggregate", .help = "x", .type = PS_OPTION_BOOL, AT(aggregate)},
    {.name = "center", .help = "x", .type = PS_OPTION_BOOL, .preset = "true", AT(center)},
    {.name = "staleness", .help = "x", .type = PS_OPTION_U32, .max = 64, .preset = "4", AT(staleness)},
    {.name = "lr", .help = "x", .type = PS_OPTION_F32, .f_min = 0, .f_max = 10, AT(rate)},
    {.name = "hidden", .help = "x", .type = PS_OPTION_LIST_U32, .min = 1, .max = 4096, AT(hidden)},
    {.name = "hosts", .help = "x", .type = PS_OPTION_STRING, .list = true, AT(hosts)},
};
static const struct ps_option both_rows[] = {
    {.name = "name", .help = "x", .type = PS_OPTION_STRING, .min = 1, .max = 20, .preset = "someone", AT(name)},
    {.name = "log-level", .help = "x", .type = PS_OPTION_ENUM, .words = levels, .preset = "info", AT(level)},
    {.name = "silence", .help = "x", .type = PS_OPTION_DURATION_MS, .max = 60000, AT(silence_ms)},
};
static const struct ps_option serve_rows[] = {
    {.name = "memory-max", .help = "x", .type = PS_OPTION_BYTES, .preset = "64MiB", AT(memory_bytes)},
    {.name = "token", .help = "x", .type = PS_OPTION_STRING, .secret = true, AT(token)},
};
/* clang-format on */

static const struct ps_option_table train_table = {train_rows, PS_ARRAY_LEN(train_rows)};
static const struct ps_option_table both_table = {both_rows, PS_ARRAY_LEN(both_rows)};
static const struct ps_option_table serve_table = {serve_rows, PS_ARRAY_LEN(serve_rows)};
static const struct ps_option_use train_uses[] = {{&train_table, 0}, {&both_table, 0}};
static const struct ps_option_use serve_uses[] = {{&serve_table, 0}, {&both_table, 0}};

static const struct ps_program *const job[3];

static const struct ps_program train = {
    .name = "ps-train",
    .summary = "x",
    .env_prefix = "PS_TRAIN",
    .uses = train_uses,
    .n_uses = PS_ARRAY_LEN(train_uses),
    .job = job,
};
static const struct ps_program serve = {
    .name = "ps-serve",
    .summary = "x",
    .env_prefix = "PS_SERVE",
    .uses = serve_uses,
    .n_uses = PS_ARRAY_LEN(serve_uses),
    .job = job,
};

static const struct ps_program *const job[3] = {&train, &serve, NULL};

/* A job file in a folder of its own, and a program that was told of it. */
struct rig {
    char path[64];
    char flag[80];
    struct ps_conf conf;
    struct options options;
    struct ps_error err;
    enum ps_conf_result result;
};

static void write_file(struct rig *rig, const char *bytes, size_t n_bytes)
{
    char folder[] = "/tmp/test_file_XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(rig->path, sizeof(rig->path), "%s/job.yaml", folder);
    (void)snprintf(rig->flag, sizeof(rig->flag), "--config=%s", rig->path);
    FILE *out = fopen(rig->path, "w");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(bytes, 1, n_bytes, out), n_bytes);
    ck_assert_int_eq(fclose(out), 0);
}

static void forget(struct rig *rig)
{
    ps_conf_deinit(&rig->conf);
    char folder[sizeof(rig->path)];
    memcpy(folder, rig->path, sizeof(folder));
    *strrchr(folder, '/') = '\0';
    ck_assert_int_eq(remove(rig->path), 0);
    ck_assert_int_eq(remove(folder), 0);
}

/* Start `program` with the file and one more flag, or NULL. */
static void start(struct rig *rig, const struct ps_program *program, char *more)
{
    char name[] = "ps";
    char *argv[] = {name, rig->flag, more};
    rig->options = (struct options){0};
    rig->err = (struct ps_error){0};
    rig->result =
        ps_conf_parse(&rig->conf, program, more != NULL ? 3 : 2, argv, &rig->options, &rig->err);
}

static void start_with(struct rig *rig, const struct ps_program *program, const char *text)
{
    write_file(rig, text, strlen(text));
    start(rig, program, NULL);
    ck_assert_msg(rig->result == PS_CONF_RUN, "%s", rig->err.text);
}

START_TEST(every_type_is_read_from_a_file)
{
    struct rig rig;
    start_with(&rig, &train,
               "%YAML 1.2\n---\ndata: /a b\naggregate: true\ncenter: no\nstaleness: 7\nlr: 1e-3\n"
               "hidden: [128, 64]\nhosts: [a:1, 'b:2']\nsilence: 1.5s\n'log-level': \"warn\"\n");
    ck_assert_str_eq(rig.options.data, "/a b");
    ck_assert(rig.options.aggregate);
    ck_assert(!rig.options.center);
    ck_assert_uint_eq(rig.options.staleness, 7);
    ck_assert_double_eq((double)rig.options.rate, (double)1e-3f);
    ck_assert_uint_eq(rig.options.hidden.n, 2);
    ck_assert_uint_eq(rig.options.hidden.values[1], 64);
    ck_assert_str_eq(rig.options.hosts, "a:1,b:2");
    ck_assert_uint_eq(rig.options.silence_ms, 1500);
    ck_assert_uint_eq(rig.options.level, 0);
    ck_assert_str_eq(rig.options.name, "someone");
    forget(&rig);
}
END_TEST

START_TEST(lists_may_be_written_below_each_other_or_as_a_flag_would_say_them)
{
    struct rig rig;
    start_with(&rig, &train, "hidden:\n- 3\n- 4\nhosts: a,b\n");
    ck_assert_uint_eq(rig.options.hidden.n, 2);
    ck_assert_str_eq(rig.options.hosts, "a,b");
    forget(&rig);
    start_with(&rig, &train, "hidden: 3,4\nhosts: []\n");
    ck_assert_uint_eq(rig.options.hidden.n, 2);
    ck_assert_str_eq(rig.options.hosts, "");
    forget(&rig);
}
END_TEST

START_TEST(a_section_is_for_its_program_and_wins_over_the_lines_for_all)
{
    static const char text[] = "ps-train:\n  name: of train\n  staleness: 1\nname: of all\n"
                               "ps-serve:\n  memory-max: 1KiB\nlog-level: warn\nstaleness: 2\n";
    struct rig rig;
    start_with(&rig, &train, text);
    ck_assert_str_eq(rig.options.name, "of train");
    ck_assert_uint_eq(rig.options.staleness, 1);
    ck_assert_uint_eq(rig.options.level, 0);
    forget(&rig);
    start_with(&rig, &serve, text);
    ck_assert_str_eq(rig.options.name, "of all");
    ck_assert_uint_eq(rig.options.memory_bytes, 1024);
    ck_assert_uint_eq(rig.options.level, 0);
    forget(&rig);
}
END_TEST

START_TEST(a_flag_wins_over_the_environment_which_wins_over_the_file)
{
    struct rig rig;
    struct ps_conf_words words;
    char flag[] = "--staleness=9";
    ck_assert_int_eq(setenv("PS_TRAIN_STALENESS", "8", 1), 0);
    ck_assert_int_eq(setenv("PS_TRAIN_LR", "0.5", 1), 0);
    static const char text[] = "# of the job\nlr: 0.25\nps-train:\n  staleness: 7\n  name: x\n";
    write_file(&rig, text, strlen(text));
    start(&rig, &train, flag);
    ck_assert_int_eq(rig.result, PS_CONF_RUN);
    ck_assert_uint_eq(rig.options.staleness, 9);
    ck_assert_double_eq((double)rig.options.rate, 0.5);
    ck_assert_str_eq(rig.options.name, "x");
    ck_assert_str_eq(ps_conf_where(&rig.conf, "staleness", &words), "flag");
    ck_assert_str_eq(ps_conf_where(&rig.conf, "lr", &words), "environment PS_TRAIN_LR");
    ck_assert_str_eq(ps_conf_where(&rig.conf, "data", &words), "preset");
    char line[128];
    (void)snprintf(line, sizeof(line), "%s:5", rig.path);
    ck_assert_str_eq(ps_conf_where(&rig.conf, "name", &words), line);
    (void)snprintf(line, sizeof(line), "--name x (%s:5)", rig.path);
    ck_assert_str_eq(ps_conf_say(&rig.conf, "name", &words), line);
    ck_assert_str_eq(ps_conf_say(NULL, "name", &words), "--name");
    ck_assert_int_eq(ps_conf_source(&rig.conf, "name"), PS_CONF_FILE);
    ck_assert(ps_conf_given(&rig.conf, "name"));
    forget(&rig);
}
END_TEST

START_TEST(what_a_file_gave_is_handed_on_to_a_child)
{
    struct rig rig;
    start_with(&rig, &train, "hidden: [3, 4]\nps-train:\n  center: false\n");
    size_t at = 0;
    const char *name = NULL;
    const char *text = NULL;
    char line[256] = "";
    while (ps_conf_next_given(&rig.conf, &train_table, &at, &name, &text)) {
        size_t used = strlen(line);
        (void)snprintf(line + used, sizeof(line) - used, " --%s=%s", name, text);
    }
    ck_assert_str_eq(line, " --center=false --hidden=3,4");
    forget(&rig);
}
END_TEST

START_TEST(the_file_may_be_named_by_the_environment)
{
    struct rig rig;
    static const char text[] = "name: from it\n";
    write_file(&rig, text, strlen(text));
    ck_assert_int_eq(setenv("PS_SERVE_CONFIG", rig.path, 1), 0);
    char name[] = "ps-serve";
    char *argv[] = {name};
    rig.options = (struct options){0};
    rig.result = ps_conf_parse(&rig.conf, &serve, 1, argv, &rig.options, &rig.err);
    ck_assert_msg(rig.result == PS_CONF_RUN, "%s", rig.err.text);
    ck_assert_str_eq(rig.options.name, "from it");
    forget(&rig);
}
END_TEST

START_TEST(files_that_say_nothing_set_nothing)
{
    static const char *const texts[] = {
        "",       "\n\n",        "# nothing\n",    "---\n", "---\n...\n",   "~",
        "null\n", "ps-train:\n", "ps-train: {}\n", "{}",    "\xef\xbb\xbf",
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(texts); i++) {
        struct rig rig;
        start_with(&rig, &train, texts[i]);
        ck_assert(!ps_conf_given(&rig.conf, "staleness"));
        forget(&rig);
    }
}
END_TEST

/* One refusal: a file, and what the message says behind the path. */
static const struct {
    const char *text;
    const char *says;
} refusals[] = {
    /* Names. */
    {"data: x\nstalenes: 4\n", ":2:1: unknown setting 'stalenes'; did you mean 'staleness'?"},
    {"memory_max: 1KiB\n", ":1:1: unknown setting 'memory_max'; did you mean 'memory-max'?"},
    {"zzzzqqq: 4\n", ":1:1: unknown setting 'zzzzqqq'"},
    {"serve:\n  name: x\n", ":1:1: unknown section 'serve'; there are ps-train, ps-serve"},
    {"zzzzqqq: {a: b}\n", ":1:1: unknown section 'zzzzqqq'"},
    {"ps-train:\n  stalenes: 4\n", ":2:3: unknown setting 'stalenes'; did you mean 'staleness'?"},
    {"ps-serve:\n  lr: 1\n", ":2:3: ps-serve has no setting 'lr', but ps-train has"},
    {"ps-serve:\n  ps-train:\n    lr: 1\n", ":2:3: unknown setting 'ps-train'"},
    {"config: other.yaml\n", ":1:1: unknown setting 'config'"},
    {"help: true\n", ":1:1: unknown setting 'help'"},
    {"4: 4\n", ":1:1: unknown setting '4'"},
    {"? [a]\n: 4\n", ":1:3: a name is expected"},
    {"? {a: b}\n: 4\n", ":1:3: a name is expected"},
    {"ps-train:\n  ? [a]\n  : 4\n", ":2:5: a name is expected"},
    {"\"a\\0b\": 4\n", ":1:1: a name with a NUL in it"},
    {"<<: {lr: 1}\n", ":1:1: merge keys (<<) are not read"},
    {": 4\n", ":1:1: not YAML: "},
    /* Twice. */
    {"lr: 1\ndata: x\nlr: 1\n", ":3:1: lr is given twice, first in line 1"},
    {"ps-train:\n  lr: 1\n  'lr': 1\n", ":3:3: lr is given twice, first in line 2"},
    {"ps-train:\n  lr: 1\nps-train:\n  data: x\n", ":3:1: section ps-train is there twice"},
    /* Values. */
    {"staleness: 65\n", ":1:12: staleness: '65' is out of range: 0 to 64"},
    {"staleness: four\n", ":1:12: staleness: 'four' is not a whole number"},
    {"staleness: 0x4\n", ":1:12: staleness: '0x4' is not a whole number"},
    {"staleness: 4 5\n", ":1:12: staleness: '4 5' is not a whole number"},
    {"lr: .nan\n", ":1:5: lr: '.nan' is not a finite number"},
    {"silence: 5\n", ":1:10: silence: '5' is not a time with a unit"},
    {"aggregate: maybe\n", ":1:12: aggregate: 'maybe' is neither true nor false"},
    {"log-level: loud\n", ":1:12: log-level: 'loud' is none of warn|info"},
    {"ps-serve:\n  memory-max: much\n", ":2:15: memory-max: 'much' is not a size"},
    {"staleness:\n", ":1:11: staleness: has no value"},
    {"staleness: ~\n", ":1:12: staleness: has no value"},
    {"data: null\n", ":1:7: data: has no value"},
    {"staleness: ''\n", ":1:12: staleness: '' is not a whole number"},
    {"name: ''\n", ":1:7: name: expected 1 to 20 bytes, got 0"},
    {"name: abcdefghijklmnopqrstu\n", ":1:7: name: expected 1 to 20 bytes, got 21"},
    {"data: [a]\n", ":1:7: data: single values are expected, not a list"},
    {"staleness: [4]\n", ":1:12: staleness: single values are expected, not a list"},
    {"staleness: {a: 4}\n", ":1:12: staleness: single values are expected, not a mapping"},
    {"hidden: {a: 4}\n", ":1:9: hidden: single values are expected, not a mapping"},
    {"hidden: [4, [5]]\n", ":1:13: hidden: single values are expected, not a list"},
    {"hidden: [4, {a: 5}]\n", ":1:13: hidden: single values are expected, not a mapping"},
    {"hidden: [4, ~]\n", ":1:13: hidden: has no value"},
    {"hidden: [4, '']\n", ":1:13: an element is empty or has a comma in it"},
    {"hidden: ['4,5']\n", ":1:10: an element is empty or has a comma in it"},
    {"hidden: [4, 0]\n", ":1:9: hidden: '4,0' is out of range: 1 to 4096"},
    {"hidden: [4, x]\n", ":1:9: hidden: '4,x' is not a list"},
    {"data: \"a\\0b\"\n", ":1:7: data: the value has a NUL in it"},
    {"lr: |\n  a\n  b\n", ":1:5: lr: 'a?b?' is not a finite number"},
    {"ps-train: 4\n", ":1:1: ps-train is a section: settings are expected below it"},
    {"ps-train: [lr]\n", ":1:1: ps-train is a section"},
    /* What YAML has and a job file has not. */
    {"data: &x y\n", ":1:7: anchors (&name) are not read"},
    {"ps-train: &x\n  lr: 1\n", ":1:11: anchors (&name) are not read"},
    {"hidden: &x [4]\n", ":1:9: anchors (&name) are not read"},
    {"&x data: y\n", ":1:1: anchors (&name) are not read"},
    {"data: *x\n", ":1:7: aliases (*name) are not read"},
    {"ps-train: *x\n", ":1:11: aliases (*name) are not read"},
    {"*x : y\n", ":1:1: aliases (*name) are not read"},
    {"data: !!str y\n", ":1:7: tags (!name) are not read"},
    {"data: ! y\n", ":1:7: tags (!name) are not read"},
    {"hidden: !x [4]\n", ":1:9: tags (!name) are not read"},
    {"!!map {data: y}\n", ":1:1: tags (!name) are not read"},
    {"data: x\n---\nlr: 1\n", ":2:1: a second document"},
    {"---\n---\n", ":2:1: a second document"},
    {"- data\n", ":1:1: lines are expected such as staleness: 4"},
    {"data\n", ":1:1: lines are expected such as staleness: 4"},
    {"'null'\n", ":1:1: lines are expected such as staleness: 4"},
    /* No YAML. */
    {"data: x\n\tlr: 1\n", ":2:1: not YAML: "},
    {"hidden: [4\nlr: 1\n", "not YAML: "},
    {"data: 'a\n", "not YAML: "},
    {"data: x\n lr: 1\n", ":2:4: not YAML: "},
    {"data: a: b\n", ":1:8: not YAML: "},
    {"%YAML 3.0\n---\ndata: x\n", ":1:1: not YAML: "},
    {"data: x\nname: \xff\n", ":2:7: not UTF-8 text: "},
    {"data: x\nname: \xc3(\n", ":2:8: not UTF-8 text: "},
    {"data: \x01\n", ":1:7: not UTF-8 text: control characters are not allowed"},
    {"d\0a\0t\0a\0", ":1:1: lines are expected"},
    {"\xfe\xff\0d\0a", ":1:1: not UTF-8 text: "},
};

START_TEST(a_bad_file_is_refused_with_one_line_that_names_line_and_column)
{
    const struct ps_program *const readers[] = {&train, &serve};
    for (size_t i = 0; i < PS_ARRAY_LEN(readers); i++) {
        struct rig rig;
        const char *text = refusals[_i].text;
        write_file(&rig, text, strlen(text));
        start(&rig, readers[i], NULL);
        ck_assert_msg(rig.result == PS_CONF_BAD, "'%s' was taken", text);
        const char *behind = strstr(rig.err.text, rig.path);
        ck_assert_msg(behind == rig.err.text &&
                          strstr(rig.err.text + strlen(rig.path), refusals[_i].says) != NULL,
                      "'%s' said: %s", text, rig.err.text);
        ck_assert_ptr_null(strchr(rig.err.text, '\n'));
        forget(&rig);
    }
}
END_TEST

START_TEST(a_nul_among_the_bytes_is_refused)
{
    struct rig rig;
    static const char text[] = "data: x\nname: a\0b\n";
    write_file(&rig, text, sizeof(text) - 1);
    start(&rig, &train, NULL);
    ck_assert_int_eq(rig.result, PS_CONF_BAD);
    ck_assert_ptr_nonnull(strstr(rig.err.text, ":2:8: not UTF-8 text: control characters"));
    forget(&rig);
}
END_TEST

START_TEST(files_and_values_have_bounds)
{
    struct rig rig;
    size_t n_bytes = PS_JOB_FILE_BYTES_MAX + 1;
    char *text = ps_mem_alloc(NULL, PS_MEM_OTHER, n_bytes);
    ck_assert_ptr_nonnull(text);
    memset(text, '#', n_bytes);
    write_file(&rig, text, n_bytes - 1);
    start(&rig, &train, NULL);
    ck_assert_msg(rig.result == PS_CONF_RUN, "%s", rig.err.text);
    forget(&rig);
    write_file(&rig, text, n_bytes);
    start(&rig, &train, NULL);
    ck_assert_int_eq(rig.result, PS_CONF_BAD);
    ck_assert_ptr_nonnull(strstr(rig.err.text, "longer than 65536 bytes"));
    forget(&rig);
    memset(text, 'x', 6000);
    memcpy(text, "data: ", 6);
    write_file(&rig, text, 6000);
    start(&rig, &train, NULL);
    ck_assert_int_eq(rig.result, PS_CONF_BAD);
    ck_assert_ptr_nonnull(strstr(rig.err.text, ":1:7: data: the value is too long"));
    forget(&rig);
    ps_mem_free(text);
}
END_TEST

START_TEST(deep_nesting_is_refused_at_its_second_step)
{
    struct rig rig;
    static char text[20000];
    memset(text, '[', sizeof(text));
    memcpy(text, "hidden: ", 8);
    write_file(&rig, text, sizeof(text));
    start(&rig, &train, NULL);
    ck_assert_int_eq(rig.result, PS_CONF_BAD);
    ck_assert_ptr_nonnull(strstr(rig.err.text, ":1:10: hidden: single values are expected"));
    forget(&rig);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_named_and_by_whom_it_was_asked_for)
{
    static const struct {
        const char *path;
        const char *says;
    } cases[] = {
        {"/nowhere/job.yaml", "cannot open '/nowhere/job.yaml': No such file or directory"},
        {"/", "cannot read '/': Is a directory"},
        {"", "cannot open '': No such file or directory"},
    };
    for (size_t i = 0; i < PS_ARRAY_LEN(cases); i++) {
        struct rig rig = {0};
        (void)snprintf(rig.flag, sizeof(rig.flag), "--config=%s", cases[i].path);
        start(&rig, &train, NULL);
        ck_assert_int_eq(rig.result, PS_CONF_BAD);
        ck_assert_ptr_nonnull(strstr(rig.err.text, cases[i].says));
        ck_assert_msg(strncmp(rig.err.text, "--config: ", 10) == 0, "%s", rig.err.text);
    }
    struct rig rig = {0};
    char name[] = "ps-train";
    char *argv[] = {name, NULL};
    ck_assert_int_eq(setenv("PS_TRAIN_CONFIG", "/nowhere", 1), 0);
    rig.result = ps_conf_parse(&rig.conf, &train, 1, argv, &rig.options, &rig.err);
    ck_assert_int_eq(rig.result, PS_CONF_BAD);
    ck_assert_str_eq(rig.err.text, "environment variable PS_TRAIN_CONFIG: cannot open '/nowhere': "
                                   "No such file or directory");
    char two[] = "--config";
    argv[1] = two;
    rig.result = ps_conf_parse(&rig.conf, &train, 2, argv, &rig.options, &rig.err);
    ck_assert_int_eq(rig.result, PS_CONF_BAD);
    ck_assert_ptr_nonnull(strstr(rig.err.text, "--config needs a value"));
}
END_TEST

/* ---- --print-config -------------------------------------------------------------------------- */

static char *printed(const struct ps_conf *conf)
{
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *out = open_memstream(&text, &n_bytes);
    ck_assert_ptr_nonnull(out);
    ps_conf_print(conf, out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

START_TEST(every_setting_is_printed_with_its_source)
{
    static const char *const rows[][2] = {
        {"  data: \"/a b\"", "flag"},
        {"  aggregate: true", "%s:2"},
        {"  #center: true", "preset"},
        {"  #staleness: 4", "preset"},
        {"  lr: 0.5", "environment PS_TRAIN_LR"},
        {"  hidden: [128, 64]", "%s:1"},
        {"  #hosts: ", "not set"},
        {"  #name: someone", "preset"},
        {"  #log-level: info", "preset"},
        {"  #silence: ", "not set"},
    };
    struct rig rig;
    ck_assert_int_eq(setenv("PS_TRAIN_LR", "0.5", 1), 0);
    char flag[] = "--data=/a b";
    static const char text[] = "hidden: [128, 64]\naggregate: yes\n";
    write_file(&rig, text, strlen(text));
    start(&rig, &train, flag);
    ck_assert_int_eq(rig.result, PS_CONF_RUN);
    char want[2048] = "ps-train:\n";
    for (size_t i = 0; i < PS_ARRAY_LEN(rows); i++) {
        size_t used = strlen(want);
        bool file = rows[i][1][0] == '%';
        (void)snprintf(want + used, sizeof(want) - used, "%-40s# %s%s\n", rows[i][0],
                       file ? rig.path : "", rows[i][1] + (file ? 2 : 0));
    }
    char *got = printed(&rig.conf);
    ck_assert_str_eq(got, want);
    free(got);
    forget(&rig);
}
END_TEST

/* Texts that YAML would read as something else, or not at all, without care. */
static const char *const odd[] = {
    "plain",
    "",
    " ",
    "a b",
    " a",
    "a ",
    "null",
    "~",
    "true",
    "4",
    "- a",
    "-a",
    "[a",
    "{a",
    "&a",
    "*a",
    "!a",
    "%a",
    "@a",
    "`a",
    "|",
    ">",
    "?",
    ":",
    "a:",
    "a: b",
    "a:b",
    "a #b",
    "#a",
    "a\"b",
    "a\\b",
    "'a'",
    "a\nb",
    "a\tb",
    "\x01",
    "\x7f",
    "\xc2\x85",
    "\xc2\xa0",
    "\xe2\x80\xa8",
    "\xef\xbb\xbf",
    "\xef\xbf\xbf",
    "\xf0\x9f\x98\x80",
    "/d\xc3\xa9j\xc3\xa0",
    "<<",
    "...",
    "---",
    "a,b",
    "1,2",
    "0x10",
    "1e3",
    ".nan",
    "%s%n",
};

START_TEST(what_is_printed_says_the_same_again)
{
    char flag[128];
    (void)snprintf(flag, sizeof(flag), "--data=%s", odd[_i]);
    struct rig rig = {0};
    static const char given[] = "hosts: '1,2'\nhidden: []\nlog-level: warn\n";
    write_file(&rig, given, strlen(given));
    start(&rig, &train, flag);
    ck_assert_msg(rig.result == PS_CONF_RUN, "%s", rig.err.text);
    char *text = printed(&rig.conf);
    struct rig again = {0};
    write_file(&again, text, strlen(text));
    start(&again, &train, NULL);
    ck_assert_msg(again.result == PS_CONF_RUN, "%s:\n%s", again.err.text, text);
    ck_assert_str_eq(again.options.data, odd[_i]);
    ck_assert_str_eq(again.options.hosts, "1,2");
    ck_assert_uint_eq(again.options.level, 0);
    ck_assert(ps_conf_given(&again.conf, "hidden"));
    ck_assert(!ps_conf_given(&again.conf, "staleness"));
    free(text);
    forget(&again);
    forget(&rig);
}
END_TEST

START_TEST(what_is_no_text_or_nobody_s_business_is_not_printed)
{
    struct rig rig = {0};
    char flag[] = "--name=\xff";
    static const char text[] = "token: s3cr3t\n";
    write_file(&rig, text, strlen(text));
    start(&rig, &serve, flag);
    ck_assert_int_eq(rig.result, PS_CONF_RUN);
    ck_assert_str_eq(rig.options.token, "s3cr3t");
    char *got = printed(&rig.conf);
    ck_assert_ptr_nonnull(strstr(got, "#token: <set> "));
    ck_assert_ptr_nonnull(strstr(got, "#name: <not UTF-8> "));
    ck_assert_ptr_null(strstr(got, "s3cr3t"));
    struct ps_conf_words words;
    ck_assert_ptr_null(strstr(ps_conf_say(&rig.conf, "token", &words), "s3cr3t"));
    free(got);
    forget(&rig);
}
END_TEST

START_TEST(a_long_path_is_shown_by_its_end)
{
    struct ps_conf_words words;
    static struct ps_conf conf;
    static char path[300];
    memset(path, 'a', sizeof(path) - 1);
    memcpy(path + sizeof(path) - 10, "\nob.yaml\0", 10);
    conf.program = &train;
    conf.own.config = path;
    conf.source[0] = PS_CONF_FILE;
    conf.line[0] = 7;
    const char *where = ps_conf_where(&conf, "data", &words);
    ck_assert_uint_eq(strlen(where), 65);
    ck_assert_msg(strncmp(where, "...a", 4) == 0 && strstr(where, "?ob.yaml:7") != NULL, "%s",
                  where);
}
END_TEST

Suite *suite_file(void)
{
    Suite *suite = suite_create("conf-file");
    TCase *tcase = tcase_create("job files");
    tcase_add_test(tcase, every_type_is_read_from_a_file);
    tcase_add_test(tcase, lists_may_be_written_below_each_other_or_as_a_flag_would_say_them);
    tcase_add_test(tcase, a_section_is_for_its_program_and_wins_over_the_lines_for_all);
    tcase_add_test(tcase, a_flag_wins_over_the_environment_which_wins_over_the_file);
    tcase_add_test(tcase, what_a_file_gave_is_handed_on_to_a_child);
    tcase_add_test(tcase, the_file_may_be_named_by_the_environment);
    tcase_add_test(tcase, files_that_say_nothing_set_nothing);
    tcase_add_loop_test(tcase, a_bad_file_is_refused_with_one_line_that_names_line_and_column, 0,
                        (int)PS_ARRAY_LEN(refusals));
    tcase_add_test(tcase, a_nul_among_the_bytes_is_refused);
    tcase_add_test(tcase, files_and_values_have_bounds);
    tcase_add_test(tcase, deep_nesting_is_refused_at_its_second_step);
    tcase_add_test(tcase, a_file_that_cannot_be_read_is_named_and_by_whom_it_was_asked_for);
    tcase_add_test(tcase, every_setting_is_printed_with_its_source);
    tcase_add_loop_test(tcase, what_is_printed_says_the_same_again, 0, (int)PS_ARRAY_LEN(odd));
    tcase_add_test(tcase, what_is_no_text_or_nobody_s_business_is_not_printed);
    tcase_add_test(tcase, a_long_path_is_shown_by_its_end);
    suite_add_tcase(suite, tcase);
    return suite;
}
