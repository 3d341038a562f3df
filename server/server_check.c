/* server_check.c — settings that are each within their bounds, but not together. */
#include "server_options.h"

enum ps_status ps_server_options_check(const struct ps_conf *conf,
                                       const struct ps_server_settings *settings,
                                       struct ps_error *err)
{
    struct ps_conf_words first;
    struct ps_conf_words second;
#ifndef PS_PLANT
    if (settings->plant != PS_SERVER_PLANT_NONE) {
        return ps_fail(err, PS_ERR_INVALID, "%s works in test builds only (-Dplant=true)",
                       ps_conf_say(conf, "plant", &first));
    }
#endif
    if (settings->coordinator != NULL && ps_conf_given(conf, "servers")) {
        return ps_fail(
            err, PS_ERR_INVALID, "%s is for the coordinator, but %s names another server",
            ps_conf_say(conf, "servers", &first), ps_conf_say(conf, "coordinator", &second));
    }
    return PS_OK;
}
