/* psctl_snapshot.c — see psctl_snapshot.h. */
#include "psctl_snapshot.h"

#include <inttypes.h>
#include <stdio.h>

#include "psctl_words.h"

/* ---- One snapshot -------------------------------------------------------------------------- */

/* "exact": when it was taken no unit was half done, so who goes on from it does so to the bit. */
static const char *how(const Ps__V1__Cut *cut)
{
    return cut->all_held ? "exact" : "units half done";
}

static cJSON *cut_json(const Ps__V1__Cut *cut)
{
    cJSON *json = cJSON_CreateObject();
    (void)cJSON_AddStringToObject(json, "name", cut->name);
    (void)cJSON_AddStringToObject(json, "dir", cut->dir);
    (void)cJSON_AddStringToObject(json, "taken", cut->taken);
    psctl_add_count(json, "generation", cut->generation);
    psctl_add_count(json, "cut", cut->cut);
    psctl_add_count(json, "bytes", cut->bytes);
    psctl_add_count(json, "ms", cut->ms);
    psctl_add_count(json, "held_us", cut->held_us);
    (void)cJSON_AddBoolToObject(json, "exact", cut->all_held);
    return json;
}

void psctl_say_snapshot(const struct ps_ask *ask, bool json)
{
    static const Ps__V1__Cut none = PS__V1__CUT__INIT;
    const Ps__V1__Cut *cut = ask->snapshot->cut != NULL ? ask->snapshot->cut : &none;
    struct psctl_shown name;
    struct psctl_shown dir;
    if (json) {
        (void)psctl_print_json(cut_json(cut));
        return;
    }
    (void)printf("snapshot %s in %s: %.1f MB in %.1f s, workers held %.1f ms, %s\n",
                 psctl_show(cut->name, &name), psctl_show(cut->dir, &dir), (double)cut->bytes / 1e6,
                 (double)cut->ms / 1e3, (double)cut->held_us / 1e3, how(cut));
}

void psctl_say_restore(const struct ps_ask *ask, bool json)
{
    static const Ps__V1__Cut none = PS__V1__CUT__INIT;
    const Ps__V1__RestoreReply *reply = ask->restore;
    const Ps__V1__Cut *cut = reply->cut != NULL ? reply->cut : &none;
    if (json) {
        cJSON *object = cut_json(cut);
        psctl_add_count(object, "loaded_as", reply->generation);
        (void)psctl_print_json(object);
        return;
    }
    struct psctl_shown name;
    struct psctl_shown taken;
    (void)printf("restored %s, taken %s: generation %" PRIu64 "\n", psctl_show(cut->name, &name),
                 psctl_show(cut->taken, &taken), reply->generation);
}

/* ---- All of them --------------------------------------------------------------------------- */

bool psctl_snapshots(const Ps__V1__DescribeReply *describe)
{
    (void)printf("%-18s %-21s %10s %8s %-16s %s\n", "SNAPSHOT", "TAKEN", "MB", "SECONDS", "UNITS",
                 "DIRECTORY");
    for (size_t i = 0; i < describe->n_cuts; i++) {
        const Ps__V1__Cut *cut = describe->cuts[i];
        struct psctl_shown name;
        struct psctl_shown taken;
        struct psctl_shown dir;
        (void)printf("%-18s %-21s %10.1f %8.1f %-16s %s\n", psctl_show(cut->name, &name),
                     psctl_show(cut->taken, &taken), (double)cut->bytes / 1e6,
                     (double)cut->ms / 1e3, how(cut), psctl_show(cut->dir, &dir));
    }
    return true;
}

static void add_cuts(const Ps__V1__DescribeReply *describe, cJSON *json)
{
    cJSON *cuts = cJSON_AddArrayToObject(json, "snapshots");
    for (size_t i = 0; i < describe->n_cuts; i++) {
        (void)cJSON_AddItemToArray(cuts, cut_json(describe->cuts[i]));
    }
}

bool psctl_snapshots_json(const Ps__V1__DescribeReply *describe)
{
    cJSON *json = cJSON_CreateObject();
    add_cuts(describe, json);
    return psctl_print_json(json);
}

/* ---- In the status ------------------------------------------------------------------------- */

static void print_cuts(const Ps__V1__DescribeReply *describe)
{
    struct psctl_shown name;
    struct psctl_shown taken;
    if (describe->n_cuts > 0) {
        const Ps__V1__Cut *newest = describe->cuts[0];
        (void)printf("snapshots    %zu, newest %s of %s, %.1f MB, %s\n", describe->n_cuts,
                     psctl_show(newest->name, &name), psctl_show(newest->taken, &taken),
                     (double)newest->bytes / 1e6, how(newest));
    }
    if (describe->cut_under_way != 0) {
        (void)printf("             number %" PRIu64 " is being taken\n", describe->cut_under_way);
    }
    if (describe->cuts_given_up > 0) {
        (void)printf("             %" PRIu64 " given up, the last: %s\n", describe->cuts_given_up,
                     psctl_show(describe->cut_failed, &name));
    }
}

void psctl_print_lasting(const Ps__V1__DescribeReply *describe)
{
    if (describe->durability != PS__V1__DURABILITY__DURABILITY_NONE) {
        (void)printf("durability   %s\n", psctl_durability(describe->durability));
    }
    print_cuts(describe);
    for (size_t i = 0; i < describe->n_away; i++) {
        const Ps__V1__Away *away = describe->away[i];
        struct psctl_shown address;
        struct psctl_shown why;
        (void)printf("away         server %" PRIu32 " (%s) since %" PRIu64 " s, waited for %" PRIu64
                     " s more%s%s\n",
                     away->index, psctl_show(away->address, &address), away->away_ms / 1000,
                     away->left_ms / 1000, away->why[0] != '\0' ? ": " : "",
                     psctl_show(away->why, &why));
    }
    if (describe->loading > 0) {
        (void)printf("loading      %" PRIu32 " servers\n", describe->loading);
    }
}

void psctl_lasting_json(const Ps__V1__DescribeReply *describe, cJSON *json)
{
    (void)cJSON_AddStringToObject(json, "durability", psctl_durability(describe->durability));
    add_cuts(describe, json);
    psctl_add_count(json, "snapshot_under_way", describe->cut_under_way);
    psctl_add_count(json, "snapshots_given_up", describe->cuts_given_up);
    (void)cJSON_AddStringToObject(json, "snapshot_failed", describe->cut_failed);
    cJSON *all = cJSON_AddArrayToObject(json, "away");
    for (size_t i = 0; i < describe->n_away; i++) {
        const Ps__V1__Away *away = describe->away[i];
        cJSON *entry = cJSON_CreateObject();
        psctl_add_count(entry, "server", away->index);
        (void)cJSON_AddStringToObject(entry, "address", away->address);
        psctl_add_count(entry, "away_ms", away->away_ms);
        psctl_add_count(entry, "left_ms", away->left_ms);
        (void)cJSON_AddStringToObject(entry, "why", away->why);
        (void)cJSON_AddItemToArray(all, entry);
    }
    psctl_add_count(json, "loading", describe->loading);
}
