/* optim.c — the registry of optim_list.h, and the counters of a page. */
#include "optim/optim.h"

#include <string.h>

#include "base/assert.h"
#include "optim/optim_list.h"

static const struct ps_optim *const optims[] = {
#define X(name) &ps_optim_##name,
    PS_OPTIM_LIST(X)
#undef X
};

const struct ps_optim *ps_optim_find(const char *name)
{
    for (size_t i = 0; i < PS_ARRAY_LEN(optims); i++) {
        if (strcmp(optims[i]->name, name) == 0) {
            return optims[i];
        }
    }
    return NULL;
}

const struct ps_optim *const *ps_optim_all(size_t *ret_n)
{
    *ret_n = PS_ARRAY_LEN(optims);
    return optims;
}

void ps_optim_page_next(struct ps_optim_page *page, const struct ps_optim_params *params)
{
    if (page->t == 0) { /* A zeroed page is a fresh one: the powers of its start are 1. */
        page->beta1_power = 1.0;
        page->beta2_power = 1.0;
    }
    page->t++;
    page->beta1_power *= (double)params->beta1;
    page->beta2_power *= (double)params->beta2;
}

struct ps_optim_step ps_optim_step_of(const struct ps_optim_params *params,
                                      const struct ps_optim_page *page, float rate, float scale)
{
    PS_ASSERT(page->t > 0);
    return (struct ps_optim_step){.params = params,
                                  .rate = rate,
                                  .scale = scale,
                                  .t = page->t,
                                  .beta1_power = page->beta1_power,
                                  .beta2_power = page->beta2_power};
}
