/*
 * fuzz_manifest.c — PART and MANIFEST of a snapshot. A line with the right sum is put behind the
 * input, since nobody finds one by chance; what is read then is written and read again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fuzz.h"
#include "snap/manifest.h"

#define LINE "xxh3 "

static uint8_t *seal(const uint8_t *data, size_t n_bytes, size_t *ret_n_bytes)
{
    uint8_t *text = malloc(n_bytes + 64);
    PS_ASSERT(text != NULL);
    if (n_bytes > 0) {
        memcpy(text, data, n_bytes);
    }
    text[n_bytes++] = '\n';
    struct ps_checksum128 sum = ps_checksum128(text, n_bytes);
    memcpy(text + n_bytes, LINE, sizeof(LINE) - 1);
    ps_checksum128_text(sum, (char *)text + n_bytes + sizeof(LINE) - 1);
    n_bytes += sizeof(LINE) - 1 + PS_CHECKSUM128_TEXT_BYTES;
    text[n_bytes - 1] = '\n';
    *ret_n_bytes = n_bytes;
    return text;
}

static void try_part(const uint8_t *text, size_t n_bytes)
{
    struct ps_snap_part part;
    struct ps_snap_part again;
    uint8_t *written = NULL;
    size_t n_written = 0;
    if (ps_snap_part_read(NULL, text, n_bytes, &part, NULL) != PS_OK) {
        return;
    }
    for (uint32_t i = 0; i < part.n_files; i++) {
        PS_ASSERT(strchr(part.files[i].name, '/') == NULL && part.files[i].name[0] != '\0');
        PS_ASSERT(part.files[i].n_chunks >= part.files[i].n_bytes / PS_SNAP_CHUNK_BYTES);
    }
    PS_ASSERT(ps_snap_part_write(NULL, &part, &written, &n_written, NULL) == PS_OK);
    PS_ASSERT(ps_snap_part_read(NULL, written, n_written, &again, NULL) == PS_OK);
    PS_ASSERT(again.n_files == part.n_files && again.base_lsn == part.base_lsn);
    ps_snap_part_deinit(&again);
    ps_snap_part_deinit(&part);
    ps_mem_free(written);
}

static void try_manifest(const uint8_t *text, size_t n_bytes)
{
    static struct ps_manifest manifest;
    static struct ps_manifest again;
    uint8_t *written = NULL;
    size_t n_written = 0;
    if (ps_manifest_read(text, n_bytes, &manifest, NULL) != PS_OK) {
        return;
    }
    PS_ASSERT(manifest.n_parts >= 1 && manifest.n_parts <= PS_SERVERS_MAX);
    PS_ASSERT(ps_manifest_write(NULL, &manifest, &written, &n_written, NULL) == PS_OK);
    PS_ASSERT(ps_manifest_read(written, n_written, &again, NULL) == PS_OK);
    PS_ASSERT(again.n_parts == manifest.n_parts && again.cut == manifest.cut);
    ps_mem_free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    size_t n_sealed = 0;
    uint8_t *sealed = seal(data, n_bytes, &n_sealed);
    try_part(sealed, n_sealed);
    try_manifest(sealed, n_sealed);
    try_part(data, n_bytes);
    try_manifest(data, n_bytes);
    free(sealed);
    return 0;
}
