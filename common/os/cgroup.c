/* cgroup.c — see cgroup.h. */
#include "os/cgroup.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 4096

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool ps_cgroup_line(const char *folder, const char *file, char *ret, int n_bytes)
{
    char path[PATH_BYTES + 64];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, file);
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        return false;
    }
    bool found = fgets(ret, n_bytes, in) != NULL;
    (void)fclose(in);
    if (found) {
        ret[strcspn(ret, "\n")] = '\0';
    }
    return found;
}

/* The limits of a group and of all groups above it. */
static uint64_t limit_along(const char *mount, const char *group,
                            uint64_t (*limit_of)(const char *folder))
{
    char folder[PATH_BYTES];
    (void)snprintf(folder, sizeof(folder), "%s%s", mount, group);
    uint64_t limit = PS_CGROUP_NONE;
    for (;;) {
        limit = smaller(limit, limit_of(folder));
        char *cut = strrchr(folder, '/');
        if (cut == NULL || strlen(folder) <= strlen(mount)) {
            return limit;
        }
        *cut = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/group" (version 2), "4:cpu,cpuacct:/group" (version 1). */
static uint64_t limit_of_line(char *line, const char *controller,
                              uint64_t (*limit_of)(const char *folder))
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL) {
        return PS_CGROUP_NONE;
    }
    *group++ = '\0';
    controllers++;
    if (controllers[0] == '\0') {
        return limit_along("/sys/fs/cgroup", group, limit_of);
    }
    char list[256];
    char wanted[64];
    char mount[96];
    (void)snprintf(list, sizeof(list), ",%s,", controllers);
    (void)snprintf(wanted, sizeof(wanted), ",%s,", controller);
    (void)snprintf(mount, sizeof(mount), "/sys/fs/cgroup/%s", controller);
    return strstr(list, wanted) == NULL ? PS_CGROUP_NONE : limit_along(mount, group, limit_of);
}

uint64_t ps_cgroup_smallest(const char *controller, uint64_t (*limit_of)(const char *folder))
{
    FILE *in = fopen("/proc/self/cgroup", "re");
    if (in == NULL) {
        return PS_CGROUP_NONE;
    }
    uint64_t limit = PS_CGROUP_NONE;
    char line[PATH_BYTES];
    while (fgets(line, sizeof(line), in) != NULL) {
        limit = smaller(limit, limit_of_line(line, controller, limit_of));
    }
    (void)fclose(in);
    return limit;
}
