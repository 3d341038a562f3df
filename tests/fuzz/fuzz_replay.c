/*
 * fuzz_replay.c — a main without libFuzzer: each file of the corpus folder as it is, cut short, and
 * changed by chance. PS_FUZZ_RUNS is the number of changes per file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>

#include "base/rng.h"
#include "fuzz.h"

#define INPUT_BYTES_MAX (256u * 1024u)
#define PATH_BYTES_MAX  4096u
#define RUNS            300u

static uint8_t input[INPUT_BYTES_MAX];

/* A copy of its own size, so that the sanitizer knows where it ends. */
static void run(const uint8_t *data, size_t n_bytes)
{
    uint8_t *copy = malloc(n_bytes + 1);
    PS_ASSERT(copy != NULL);
    memcpy(copy, data, n_bytes);
    (void)LLVMFuzzerTestOneInput(copy, n_bytes);
    free(copy);
}

static void change(struct ps_rng *rng, uint8_t *data, size_t n_bytes)
{
    static const uint8_t odd[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    for (uint64_t i = 1 + ps_rng_below(rng, 4); i > 0; i--) {
        uint8_t *at = &data[ps_rng_below(rng, n_bytes)];
        switch (ps_rng_below(rng, 4)) {
        case 0: *at = (uint8_t)ps_rng_next(rng); break;
        case 1: *at ^= (uint8_t)(1u << ps_rng_below(rng, 8)); break;
        case 2: *at = odd[ps_rng_below(rng, sizeof(odd))]; break;
        default: *at = data[ps_rng_below(rng, n_bytes)]; break;
        }
    }
}

static void replay(size_t n_bytes, uint64_t n_runs)
{
    static uint8_t changed[INPUT_BYTES_MAX];
    run(input, n_bytes);
    struct ps_rng rng = ps_rng_from(n_bytes);
    for (uint64_t i = 0; i < n_runs && n_bytes > 0; i++) {
        memcpy(changed, input, n_bytes);
        size_t n = n_bytes;
        if (i % 4 == 0) {
            n = (size_t)ps_rng_below(&rng, n_bytes);
        } else {
            change(&rng, changed, n_bytes);
        }
        run(changed, n);
    }
}

static int replay_file(const char *folder, const char *name, uint64_t n_runs)
{
    char path[PATH_BYTES_MAX];
    int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = n > 0 && (size_t)n < sizeof(path) ? fopen(path, "rb") : NULL;
    if (file == NULL) {
        (void)fprintf(stderr, "cannot read %s/%s\n", folder, name);
        return 1;
    }
    size_t n_bytes = fread(input, 1, sizeof(input), file);
    (void)fclose(file);
    replay(n_bytes, n_runs);
    return 0;
}

int main(int argc, char **argv)
{
    const char *runs = getenv("PS_FUZZ_RUNS");
    uint64_t n_runs = runs != NULL ? strtoull(runs, NULL, 10) : RUNS;
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (folder == NULL) {
        (void)fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    uint32_t n_files = 0;
    int failed = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] != '.') {
            failed |= replay_file(argv[1], entry->d_name, n_runs);
            n_files++;
        }
    }
    (void)closedir(folder);
    (void)printf("%u files, %llu changes each\n", n_files, (unsigned long long)n_runs);
    return failed != 0 || n_files == 0;
}
