#ifndef PS_COMMON_CONF_CONF_H
#define PS_COMMON_CONF_CONF_H
/*
 * conf/conf.h — settings as rows: one row is a flag, an environment variable, a key of a job file.
 *
 * A part of the program (training, cluster, ...) exports a const table of rows, whose offsets point
 * into its own struct of options; a program lists the tables it uses, so two programs share a part
 * by naming the same table. A setting comes from, in this order, the preset of its row, the job
 * file that --config names, the environment variable <prefix>_<NAME>, the flag --name. Strings are
 * borrowed from argv, the environment and the rows; those of a job file live in struct ps_conf.
 * For start-up: one thread. The only folder that reads the environment.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/attr.h"
#include "base/error.h"

#define PS_CONF_ROWS_MAX       160u /* Rows of all tables of one program; --help would be a book. */
#define PS_CONF_POSITIONAL_MAX 16u  /* Words that are no flags: a command and its arguments. */
#define PS_CONF_LIST_MAX       16u  /* Numbers in one list: --hidden 128,64. */
#define PS_CONF_NAME_BYTES_MAX 40u  /* Of a flag's name; the environment variable adds a prefix. */
#define PS_CONF_TEXT_BYTES_MAX 4096u /* Of a value, its end included: the longest path of Linux. */
#define PS_CONF_SAY_BYTES      160u  /* A flag, its value and its source in a message. */

/** What stands at the row's offset, and how its text is read. */
enum ps_option_type {
    PS_OPTION_STRING,      /* const char *; NULL when there is neither preset nor value. */
    PS_OPTION_BOOL,        /* bool; --name and --no-name, or =true and =false. */
    PS_OPTION_U32,         /* uint32_t */
    PS_OPTION_U64,         /* uint64_t */
    PS_OPTION_F32,         /* float, finite */
    PS_OPTION_F64,         /* double, finite */
    PS_OPTION_BYTES,       /* uint64_t: 4096, 64KiB, 1.5GiB, 10MB */
    PS_OPTION_DURATION_MS, /* uint64_t milliseconds: 0, 250ms, 1.5s, 2m, 1h; a unit is required. */
    PS_OPTION_ENUM,        /* uint32_t or an enum: the index of the word in `words`. */
    PS_OPTION_ID,          /* struct ps_id: 32 hexadecimal digits; without a value none. */
    PS_OPTION_LIST_U32,    /* struct ps_u32_list; an empty text is an empty list. */
};

struct ps_u32_list {
    uint32_t n;
    uint32_t values[PS_CONF_LIST_MAX];
};

/** One setting. What does not apply stays 0. */
struct ps_option {
    const char *name;         /* "staleness": lower case, words joined by '-', not "no-...". */
    const char *unit;         /* In --help and in messages: "steps"; "FILE" for a string's kind. */
    const char *help;         /* A sentence or two. */
    const char *group;        /* Heading in --help; NULL: that of the row before. */
    const char *preset;       /* As the user would write it; NULL: zero, and nothing is shown. */
    const char *const *words; /* ENUM: the words, then NULL. */
    enum ps_option_type type;
    bool required;       /* Refuse to start without a value from file, environment or flag. */
    bool word;           /* STRING: of [a-z0-9_.-] only. */
    bool secret;         /* STRING: no message and no --print-config shows its value. */
    bool list;           /* STRING: words joined by commas; in a job file also [a, b]. */
    uint64_t min, max;   /* Numbers, ms, elements of a list, bytes of a STRING. max 0: no bound. */
    double f_min, f_max; /* F32 and F64. Both 0: no bounds but finite. */
    size_t offset;       /* Within the struct that the table fills. */
};

/** The rows of one struct of options. */
struct ps_option_table {
    const struct ps_option *rows;
    size_t n_rows;
};

/** A table, and where the struct that it fills lies within the options of the program. */
struct ps_option_use {
    const struct ps_option_table *table;
    size_t offset;
};

/** A word that says what to do: `psctl status`. */
struct ps_command {
    const char *name;
    const char *help; /* A sentence. */
};

/** How a program may end. */
struct ps_exit {
    int status;
    const char *meaning; /* NULL: the list ends. */
};

struct ps_program {
    const char *name;    /* "ps-server"; also its section of a job file. */
    const char *brief;   /* What it is, for a list of manual pages; no sentence. */
    const char *summary; /* First line of --help. */
    const char *usage; /* What follows the name in the usage line; NULL: ps_conf_usage makes it. */
    const char *notes; /* A sentence or two behind the flags; or NULL. */
    const struct ps_exit *exits; /* NULL: nothing is said of them. */
    const char *env_prefix;      /* "PS_SERVER": --data-dir is PS_SERVER_DATA_DIR. */
    const struct ps_option_use *uses;
    size_t n_uses;
    size_t n_positional_max;           /* Words beside flags; 0: every one is an error. */
    const struct ps_command *commands; /* The first word is one of them; NULL: there are none. */
    size_t n_commands;
    /* The programs that share a job file, this one among them, then NULL; NULL: it alone. */
    const struct ps_program *const *job;
};

enum ps_conf_source {
    PS_CONF_PRESET,
    PS_CONF_FILE,
    PS_CONF_ENV,
    PS_CONF_FLAG,
};

enum ps_conf_result {
    PS_CONF_RUN,  /* Options are filled in: start. */
    PS_CONF_DONE, /* --help, --version or --print-config was printed: exit 0. */
    PS_CONF_BAD,  /* One line is in `err`: print it, exit 2. */
};

struct ps_conf_entry; /* One setting of a job file; conf/file.h. */

/** What a job file says. */
struct ps_conf_file {
    struct ps_conf_entry *first; /* In the order of the file. */
    struct ps_conf_entry *last;
};

/** The settings that every program has. */
struct ps_conf_own {
    const char *config; /* Path of the job file, or NULL. */
    bool print_config;
    bool help;
    bool version;
};

/** What was parsed. Caller's memory; valid while argv and the environment are unchanged. */
struct ps_conf {
    const struct ps_program *program;
    const char *text[PS_CONF_ROWS_MAX]; /* As given by the user; NULL: the preset. */
    enum ps_conf_source source[PS_CONF_ROWS_MAX];
    uint32_t line[PS_CONF_ROWS_MAX]; /* Of the job file, where that is the source. */
    const char *positional[PS_CONF_POSITIONAL_MAX];
    size_t n_positional;
    struct ps_conf_own own;
    struct ps_conf_file file; /* Keeps the texts that came from it. */
};

/**
 * Fill `options` (the program's struct, to which all offsets of `program` refer) from presets, job
 * file, environment and argv[1..]. --help and --version win over every error and print to standard
 * output. A wrong table (a preset out of range, a name twice) is an assertion. After PS_CONF_RUN
 * strings of `options` may lie in `conf`: to be given to ps_conf_deinit when they are not needed
 * any more. After another result there is nothing to give back.
 */
PS_MUST_CHECK enum ps_conf_result ps_conf_parse(struct ps_conf *conf,
                                                const struct ps_program *program, int argc,
                                                char *const *argv, void *options,
                                                struct ps_error *err);

/** Free what came from the job file. A zeroed `conf` does nothing. */
void ps_conf_deinit(struct ps_conf *conf);

/** Whether the user gave the setting `name`, wherever. `name` must be a row. */
bool ps_conf_given(const struct ps_conf *conf, const char *name);

/** Where the value of `name` is from: for messages about settings that contradict each other. */
enum ps_conf_source ps_conf_source(const struct ps_conf *conf, const char *name);

/** Words of ps_conf_where and ps_conf_say. */
struct ps_conf_words {
    char text[PS_CONF_SAY_BYTES];
};

/** "flag", "environment PS_RUN_SEED", "job.yaml:7" or "preset": where a value is from. */
const char *ps_conf_where(const struct ps_conf *conf, const char *name,
                          struct ps_conf_words *words);

/**
 * "--seed 7 (job.yaml:12)": a setting in a message about two that contradict each other. `conf`
 * NULL: "--seed".
 */
const char *ps_conf_say(const struct ps_conf *conf, const char *name, struct ps_conf_words *words);

/**
 * Walk over what the user gave among the rows of `table`, to hand it to another program: `*at`
 * starts at 0; each call fills in name and text (so that --name=text means the same again) and
 * returns true, until there is no more.
 */
bool ps_conf_next_given(const struct ps_conf *conf, const struct ps_option_table *table, size_t *at,
                        const char **ret_name, const char **ret_text);

/**
 * Take the variables of `program` out of the environment, so that a child that is told its settings
 * by flags does not find others there. Before any thread is started.
 */
void ps_conf_env_forget(const struct ps_program *program);

/** "preset 4; 1 to 64 steps": what --help says of a row's values; "" when there is nothing. */
void ps_conf_describe(const struct ps_option *row, char *text, size_t n_bytes);

/** Whether a row is a bool that is on unless told otherwise: --help shows --no-name. */
bool ps_conf_is_on(const struct ps_option *row);

/** What follows the program's name in its usage line. */
const char *ps_conf_usage(const struct ps_program *program);

/** Print what --help prints. */
void ps_conf_help(const struct ps_program *program, FILE *out);

/** Print what --version prints. */
void ps_conf_version(const struct ps_program *program, FILE *out);

/**
 * Print what --print-config prints: every setting with its value and where that is from, as a
 * section of a job file that says the same again. Presets are comments in it.
 */
void ps_conf_print(const struct ps_conf *conf, FILE *out);

/** --config, --print-config, --help, --version: the rows that every program has. */
extern const struct ps_option_table ps_conf_own_table;

#endif
