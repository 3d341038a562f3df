/* registry.c — the one list of models, and the checks that all kinds share. */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "model/model_list.h"

static const struct ps_model_kind *const kinds[] = {
    &ps_model_softmax,
    &ps_model_mlp,
};

const struct ps_model_kind *ps_model_find(const char *name)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            return kinds[i];
        }
    }
    return NULL;
}

const struct ps_model_kind *const *ps_model_all(size_t *ret_n)
{
    *ret_n = PS_ARRAY_LEN(kinds);
    return kinds;
}

static enum ps_status check_width(const char *what, uint32_t width, uint32_t min,
                                  struct ps_error *err)
{
    if (width < min || width > PS_MODEL_WIDTH_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "%s must be %" PRIu32 " to %u, got %" PRIu32, what, min,
                       PS_MODEL_WIDTH_MAX, width);
    }
    return PS_OK;
}

enum ps_status ps_model_create(const struct ps_model_kind *kind,
                               const struct ps_model_params *params, struct ps_model **ret,
                               struct ps_error *err)
{
    PS_ASSERT(kind != NULL);
    PS_ASSERT(params->n_hidden <= PS_MODEL_HIDDEN_MAX);
    enum ps_status status = check_width("number of features", params->n_features, 1, err);
    if (status == PS_OK) {
        status = check_width("number of classes", params->n_classes, 2, err);
    }
    for (uint32_t i = 0; status == PS_OK && i < params->n_hidden; i++) {
        status = check_width("--hidden: units of a layer", params->hidden[i], 1, err);
    }
    if (status == PS_OK && kind->check != NULL) {
        status = kind->check(params, err);
    }
    return status == PS_OK ? kind->create(params, ret, err) : status;
}

void ps_model_destroy(struct ps_model *model)
{
    if (model != NULL) {
        model->kind->destroy(model);
    }
}

/* Read one decimal number at `*at` and move behind it. 0 when there is none or it is too large. */
static uint32_t take_width(const char **at)
{
    uint64_t width = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        width = width * 10 + (uint64_t)(**at - '0');
        if (width > PS_MODEL_WIDTH_MAX) {
            return 0;
        }
    }
    return (uint32_t)width;
}

enum ps_status ps_model_hidden_parse(const char *text, struct ps_model_params *params,
                                     struct ps_error *err)
{
    uint32_t hidden[PS_MODEL_HIDDEN_MAX] = {0};
    uint32_t n = 0;
    const char *at = text;
    while (*at != '\0') {
        if (n == PS_MODEL_HIDDEN_MAX) {
            return ps_fail(err, PS_ERR_INVALID, "--hidden '%s': at most %u layers", text,
                           PS_MODEL_HIDDEN_MAX);
        }
        hidden[n] = take_width(&at);
        bool more = *at == ',' && at[1] != '\0';
        if (hidden[n] == 0 || (*at != '\0' && !more)) {
            return ps_fail(err, PS_ERR_INVALID,
                           "--hidden '%s': expected numbers from 1 to %u joined by commas, like "
                           "128,64",
                           text, PS_MODEL_WIDTH_MAX);
        }
        n++;
        at += more;
    }
    memcpy(params->hidden, hidden, sizeof(hidden));
    params->n_hidden = n;
    return PS_OK;
}
