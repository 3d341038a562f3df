/* env.c — see env.h. */
#include "conf/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "conf/place.h"
#include "conf/suggest.h"
#include "conf/value.h"

#define NAME_SHOWN 60 /* Of a variable that is no setting, in a message. */

void ps_conf_env_name(const struct ps_program *program, const char *name, char *text,
                      size_t n_bytes)
{
    (void)snprintf(text, n_bytes, "%s_%s", program->env_prefix, name);
    for (char *at = text; *at != '\0'; at++) {
        if (*at == '-') {
            *at = '_';
        } else if (*at >= 'a' && *at <= 'z') {
            *at = (char)(*at - 'a' + 'A');
        }
    }
}

const char *ps_conf_env_text(const struct ps_program *program, const char *name, char *label)
{
    char variable[PS_CONF_ENV_NAME_BYTES];
    ps_conf_env_name(program, name, variable, sizeof(variable));
    (void)snprintf(label, PS_CONF_LABEL_BYTES, "environment variable %s", variable);
    const char *text = getenv(variable); // NOLINT(concurrency-mt-unsafe): before threads start
    return text == NULL || text[0] == '\0' ? NULL : text;
}

/* ---- What is no setting --------------------------------------------------------------------- */

/* A name as in the environment, not 0-terminated. */
struct name {
    const char *text;
    size_t n_bytes;
};

static bool ends_with(struct name name, const char *end)
{
    size_t n = strlen(end);
    return name.n_bytes >= n && memcmp(name.text + name.n_bytes - n, end, n) == 0;
}

static bool has(struct name name, const char *part)
{
    return memmem(name.text, name.n_bytes, part, strlen(part)) != NULL;
}

/*
 * For a Service called ps-server Kubernetes sets PS_SERVER_SERVICE_HOST, ..._SERVICE_PORT,
 * ..._SERVICE_PORT_<name>, PS_SERVER_PORT=tcp://... and ..._PORT_7070_TCP, ..._TCP_ADDR and more;
 * for ps-server-0 the same with _0 before.
 */
static bool is_of_kubernetes(struct name name, const char *value)
{
    static const char *const protocols[] = {"_TCP", "_UDP", "_SCTP"};
    if (ends_with(name, "_SERVICE_HOST") || has(name, "_SERVICE_PORT")) {
        return true;
    }
    if (ends_with(name, "_PORT") && strstr(value, "://") != NULL) {
        return true;
    }
    for (size_t i = 0; i < PS_ARRAY_LEN(protocols); i++) {
        if (has(name, "_PORT_") && has(name, protocols[i])) {
            return true;
        }
    }
    return false;
}

static bool is_setting(const struct ps_program *program, struct name name)
{
    size_t n = ps_conf_row_count(program);
    for (size_t i = 0; i < n; i++) {
        struct ps_conf_place place = ps_conf_place_at(program, i);
        char variable[PS_CONF_ENV_NAME_BYTES];
        ps_conf_env_name(program, place.row->name, variable, sizeof(variable));
        if (ps_conf_has_env(place) && strlen(variable) == name.n_bytes &&
            memcmp(variable, name.text, name.n_bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* `name` begins with the prefix and '_'. */
static enum ps_status refuse(const struct ps_program *program, struct name name,
                             struct ps_error *err)
{
    char flag[PS_SUGGEST_BYTES_MAX + 1];
    size_t n_prefix = strlen(program->env_prefix) + 1;
    (void)snprintf(flag, sizeof(flag), "%.*s", (int)(name.n_bytes - n_prefix),
                   name.text + n_prefix);
    for (char *at = flag; *at != '\0'; at++) {
        *at = (char)(*at == '_' ? '-' : *at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
    }
    struct ps_suggest best;
    ps_suggest_init(&best, flag, strlen(flag));
    size_t n = ps_conf_row_count(program);
    for (size_t i = 0; i < n; i++) {
        struct ps_conf_place place = ps_conf_place_at(program, i);
        if (ps_conf_has_env(place)) {
            ps_suggest_offer(&best, place.row->name);
        }
    }
    int shown = name.n_bytes < NAME_SHOWN ? (int)name.n_bytes : NAME_SHOWN;
    if (ps_suggest_best(&best) == NULL) {
        return ps_fail(err, PS_ERR_INVALID,
                       "environment variable %.*s is no setting; see %s --help", shown, name.text,
                       program->name);
    }
    char variable[PS_CONF_ENV_NAME_BYTES];
    ps_conf_env_name(program, ps_suggest_best(&best), variable, sizeof(variable));
    return ps_fail(err, PS_ERR_INVALID, "environment variable %.*s is no setting; did you mean %s?",
                   shown, name.text, variable);
}

/* Does `variable` begin with the prefix of the program? */
static bool is_ours(const struct ps_program *program, const char *variable)
{
    size_t n_prefix = strlen(program->env_prefix);
    return strncmp(variable, program->env_prefix, n_prefix) == 0 && variable[n_prefix] == '_';
}

void ps_conf_env_forget(const struct ps_program *program)
{
    char **to = environ;
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        if (!is_ours(program, *at)) {
            *to++ = *at;
        }
    }
    if (to != NULL) {
        *to = NULL;
    }
}

enum ps_status ps_conf_env_check(const struct ps_program *program, struct ps_error *err)
{
    for (char *const *at = environ; at != NULL && *at != NULL; at++) {
        struct name name = {*at, strcspn(*at, "=")};
        const char *value = (*at)[name.n_bytes] == '=' ? *at + name.n_bytes + 1 : "";
        if (is_ours(program, *at) && value[0] != '\0' && !is_of_kubernetes(name, value) &&
            !is_setting(program, name)) {
            return refuse(program, name, err);
        }
    }
    return PS_OK;
}
