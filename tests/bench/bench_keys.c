/*
 * bench_keys.c — how fast keys are read from their bytes, by the width of their differences.
 *
 * A call's worth of keys, again and again, so that the bytes come from the cache. CPU time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/rng.h"
#include "wire/keys.h"

#define N_KEYS   16384u
#define N_ROUNDS 2000u

static uint64_t keys[N_KEYS];
static uint64_t got[N_KEYS];
static uint8_t bytes[N_KEYS * PS_KEY_BYTES_MAX];

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void measure(const char *what, uint64_t most)
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < N_KEYS; i++) {
        key += 1 + ps_rng_at(1, 2, i) % most;
        keys[i] = key;
    }
    size_t n_bytes = ps_keys_write(keys, N_KEYS, bytes, sizeof(bytes));
    struct ps_slice slice = {.data = bytes, .n_bytes = n_bytes};
    double start = now_s();
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        if (ps_keys_read(ps_cursor_over(&slice, 1), got, N_KEYS, NULL) != PS_OK) {
            exit(1);
        }
    }
    (void)printf("%-28s %5.2f bytes a key, %7.1f M keys/s\n", what, (double)n_bytes / N_KEYS,
                 (double)N_KEYS * N_ROUNDS / (now_s() - start) * 1e-6);
}

int main(void)
{
    measure("differences up to 128", 128);
    measure("up to 200: one byte or two", 200);
    measure("up to 16,384", 16384);
    measure("up to 2^40", UINT64_C(1) << 40);
    measure("hashed: up to 2^49", UINT64_C(1) << 49);
    return 0;
}
