/* manifest.c — see manifest.h. */
#include "snap/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/assert.h"

#define SUM_MARK       "xxh3 "
#define SUM_MARK_BYTES 5u
#define SUM_DIGITS     (PS_CHECKSUM128_TEXT_BYTES - 1)
#define SUM_LINE_BYTES (SUM_MARK_BYTES + SUM_DIGITS + 1)
#define NUMBER_BYTES   24u /* A 64-bit number in decimal. */

/* ---- Writing -------------------------------------------------------------------------------- */

/* Numbers of 64 bits are texts: those of JSON are doubles. */
static bool put_u64(cJSON *to, const char *key, uint64_t value)
{
    char text[NUMBER_BYTES];
    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    return cJSON_AddStringToObject(to, key, text) != NULL;
}

static bool put_u32(cJSON *to, const char *key, uint32_t value)
{
    return cJSON_AddNumberToObject(to, key, value) != NULL;
}

static bool put_id(cJSON *to, const char *key, const struct ps_id *id)
{
    char text[PS_ID_TEXT_BYTES];
    ps_id_text(id, text);
    return cJSON_AddStringToObject(to, key, text) != NULL;
}

static bool put_sum(cJSON *to, const char *key, struct ps_checksum128 sum)
{
    char text[PS_CHECKSUM128_TEXT_BYTES];
    ps_checksum128_text(sum, text);
    return cJSON_AddStringToObject(to, key, text) != NULL;
}

/* All sums of a file behind each other. */
static bool put_chunks(struct ps_mem *mem, cJSON *to, const struct ps_snap_file *file)
{
    size_t n = (size_t)file->n_chunks * SUM_DIGITS;
    char *text = ps_mem_alloc(mem, PS_MEM_OTHER, n + 1);
    bool good = text != NULL;
    for (uint32_t i = 0; good && i < file->n_chunks; i++) {
        ps_checksum128_text(file->chunks[i], text + (size_t)i * SUM_DIGITS);
    }
    good = good && cJSON_AddStringToObject(to, "chunks", text) != NULL;
    ps_mem_free(text);
    return good;
}

static bool put_file(struct ps_mem *mem, cJSON *files, const struct ps_snap_file *file)
{
    cJSON *entry = cJSON_CreateObject();
    if (entry == NULL || !cJSON_AddItemToArray(files, entry)) {
        cJSON_Delete(entry);
        return false;
    }
    return cJSON_AddStringToObject(entry, "name", file->name) != NULL &&
           (file->table == 0 || put_u32(entry, "table", file->table - 1)) &&
           put_u64(entry, "bytes", file->n_bytes) && put_chunks(mem, entry, file);
}

static bool put_slot(cJSON *slots, const struct ps_snap_slot *slot)
{
    cJSON *entry = cJSON_CreateObject();
    if (entry == NULL || !cJSON_AddItemToArray(slots, entry)) {
        cJSON_Delete(entry);
        return false;
    }
    return put_u32(entry, "slot", slot->slot) && put_u64(entry, "epoch", slot->epoch) &&
           put_u64(entry, "position", slot->position);
}

/* Print `json` (NULL: no memory), put the line with its sum behind it, and delete it. */
static enum ps_status print(struct ps_mem *mem, cJSON *json, uint8_t **ret, size_t *ret_n_bytes,
                            struct ps_error *err)
{
    char *text = json != NULL ? cJSON_PrintUnformatted(json) : NULL;
    cJSON_Delete(json);
    size_t n_text = text != NULL ? strlen(text) : 0;
    char *all =
        text != NULL ? ps_mem_alloc(mem, PS_MEM_OTHER, n_text + 1 + SUM_LINE_BYTES + 1) : NULL;
    if (all == NULL) {
        cJSON_free(text);
        return ps_fail(err, PS_ERR_NOMEM, "no memory for the list of a snapshot's files");
    }
    memcpy(all, text, n_text + 1);
    cJSON_free(text);
    all[n_text++] = '\n';
    struct ps_checksum128 sum = ps_checksum128(all, n_text);
    memcpy(all + n_text, SUM_MARK, SUM_MARK_BYTES + 1);
    ps_checksum128_text(sum, all + n_text + SUM_MARK_BYTES);
    all[n_text + SUM_LINE_BYTES - 1] = '\n';
    *ret = (uint8_t *)all;
    *ret_n_bytes = n_text + SUM_LINE_BYTES;
    return PS_OK;
}

static bool fill_part(struct ps_mem *mem, cJSON *json, const struct ps_snap_part *part)
{
    bool good =
        put_u32(json, "format", PS_SNAP_FORMAT) && put_u64(json, "generation", part->generation) &&
        put_u64(json, "cut", part->cut) && put_id(json, "cluster", &part->cluster) &&
        put_u64(json, "key_seed", part->key_seed) && put_u64(json, "base_lsn", part->base_lsn) &&
        put_u32(json, "server", part->server) && put_u32(json, "servers", part->n_servers);
    cJSON *slots = good ? cJSON_AddArrayToObject(json, "slots") : NULL;
    good = slots != NULL;
    for (uint32_t i = 0; good && i < part->n_slots; i++) {
        good = put_slot(slots, &part->slots[i]);
    }
    cJSON *files = good ? cJSON_AddArrayToObject(json, "files") : NULL;
    good = files != NULL;
    for (uint32_t i = 0; good && i < part->n_files; i++) {
        good = put_file(mem, files, &part->files[i]);
    }
    return good;
}

enum ps_status ps_snap_part_write(struct ps_mem *mem, const struct ps_snap_part *part,
                                  uint8_t **ret, size_t *ret_n_bytes, struct ps_error *err)
{
    PS_ASSERT(part->n_files <= PS_SNAP_FILES_MAX && part->n_slots <= PS_SLOTS);
    cJSON *json = cJSON_CreateObject();
    if (json != NULL && !fill_part(mem, json, part)) {
        cJSON_Delete(json);
        json = NULL;
    }
    return print(mem, json, ret, ret_n_bytes, err);
}

static bool put_manifest_part(cJSON *parts, const struct ps_manifest_part *part)
{
    cJSON *entry = cJSON_CreateObject();
    if (entry == NULL || !cJSON_AddItemToArray(parts, entry)) {
        cJSON_Delete(entry);
        return false;
    }
    return put_u32(entry, "server", part->server) &&
           cJSON_AddStringToObject(entry, "address", part->address) != NULL &&
           cJSON_AddBoolToObject(entry, "here", part->here) != NULL &&
           put_u64(entry, "bytes", part->n_bytes) && put_sum(entry, "part", part->sum);
}

static bool fill_manifest(cJSON *json, const struct ps_manifest *manifest)
{
    bool good = put_u32(json, "format", PS_SNAP_FORMAT) &&
                put_u64(json, "generation", manifest->generation) &&
                put_u64(json, "cut", manifest->cut) &&
                put_id(json, "cluster", &manifest->cluster) &&
                cJSON_AddStringToObject(json, "taken", manifest->taken) != NULL &&
                put_u64(json, "job_bytes", manifest->n_job_bytes) &&
                put_sum(json, "job", manifest->job_sum);
    cJSON *parts = good ? cJSON_AddArrayToObject(json, "parts") : NULL;
    good = parts != NULL;
    for (uint32_t i = 0; good && i < manifest->n_parts; i++) {
        good = put_manifest_part(parts, &manifest->parts[i]);
    }
    return good;
}

enum ps_status ps_manifest_write(struct ps_mem *mem, const struct ps_manifest *manifest,
                                 uint8_t **ret, size_t *ret_n_bytes, struct ps_error *err)
{
    PS_ASSERT(manifest->n_parts >= 1 && manifest->n_parts <= PS_SERVERS_MAX);
    cJSON *json = cJSON_CreateObject();
    if (json != NULL && !fill_manifest(json, manifest)) {
        cJSON_Delete(json);
        json = NULL;
    }
    return print(mem, json, ret, ret_n_bytes, err);
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* A text of at most `n_max` bytes under `key`, or NULL. */
static const char *text_of(const cJSON *json, const char *key, size_t n_max)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
    return text != NULL && strlen(text) <= n_max ? text : NULL;
}

/* Decimal digits as put_u64 writes them, nothing else. */
static bool parse_u64(const char *text, uint64_t *ret)
{
    uint64_t value = 0;
    if (text == NULL || text[0] == '\0' || (text[0] == '0' && text[1] != '\0')) {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value)) {
            return false;
        }
    }
    *ret = value;
    return true;
}

static bool get_u64(const cJSON *json, const char *key, uint64_t *ret)
{
    return parse_u64(text_of(json, key, NUMBER_BYTES), ret);
}

static bool get_u32(const cJSON *json, const char *key, uint32_t *ret)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0.0) || item->valuedouble > UINT32_MAX) {
        return false;
    }
    *ret = (uint32_t)item->valuedouble;
    return (double)*ret >= item->valuedouble;
}

static bool get_id(const cJSON *json, const char *key, struct ps_id *ret)
{
    const char *text = text_of(json, key, PS_ID_TEXT_BYTES - 1);
    return text != NULL && ps_id_parse(text, ret);
}

static bool get_sum(const cJSON *json, const char *key, struct ps_checksum128 *ret)
{
    const char *text = text_of(json, key, SUM_DIGITS);
    return text != NULL && strlen(text) == SUM_DIGITS && ps_checksum128_parse(text, ret);
}

static bool get_text(const cJSON *json, const char *key, char *to, size_t n_to)
{
    const char *text = text_of(json, key, n_to - 1);
    if (text == NULL) {
        return false;
    }
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static enum ps_status bad_field(struct ps_error *err, const char *key)
{
    return ps_fail(err, PS_ERR_CORRUPT, "its field '%s' is not what it must be", key);
}

/* Check the last line, and parse what is before it. `*ret` goes to cJSON_Delete. */
static enum ps_status parse(const uint8_t *data, size_t n_bytes, cJSON **ret, struct ps_error *err)
{
    struct ps_checksum128 said;
    if (n_bytes > PS_SNAP_TEXT_BYTES) {
        return ps_fail(err, PS_ERR_CORRUPT, "it has %zu bytes, at most %u", n_bytes,
                       PS_SNAP_TEXT_BYTES);
    }
    if (n_bytes <= SUM_LINE_BYTES + 1) {
        return ps_fail(err, PS_ERR_CORRUPT, "%zu bytes are too few", n_bytes);
    }
    size_t n_text = n_bytes - SUM_LINE_BYTES;
    const char *line = (const char *)data + n_text;
    if (data[n_text - 1] != '\n' || memcmp(line, SUM_MARK, SUM_MARK_BYTES) != 0 ||
        line[SUM_LINE_BYTES - 1] != '\n' || !ps_checksum128_parse(line + SUM_MARK_BYTES, &said)) {
        return ps_fail(err, PS_ERR_CORRUPT, "byte %zu: it does not end with its checksum", n_text);
    }
    if (!ps_checksum128_equal(ps_checksum128(data, n_text), said)) {
        return ps_fail(err, PS_ERR_CORRUPT, "its checksum is not that of its content");
    }
    const char *end = NULL;
    cJSON *json = cJSON_ParseWithLengthOpts((const char *)data, n_text, &end, 0);
    if (!cJSON_IsObject(json) || end != (const char *)data + n_text - 1) {
        cJSON_Delete(json);
        return ps_fail(err, PS_ERR_CORRUPT, "it is not one JSON object on one line");
    }
    *ret = json;
    return PS_OK;
}

static enum ps_status check_format(const cJSON *json, struct ps_error *err)
{
    uint32_t format = 0;
    if (!get_u32(json, "format", &format)) {
        return bad_field(err, "format");
    }
    if (format != PS_SNAP_FORMAT) {
        return ps_fail(err, PS_ERR_UNSUPPORTED, "it has format %" PRIu32 ", this program knows %u",
                       format, PS_SNAP_FORMAT);
    }
    return PS_OK;
}

static bool name_valid(const char *name)
{
    static const char ours[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    return name[0] != '\0' && strspn(name, ours) == strlen(name) && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static enum ps_status read_chunks(struct ps_mem *mem, const cJSON *entry, struct ps_snap_file *file,
                                  struct ps_error *err)
{
    const char *text = text_of(entry, "chunks", PS_SNAP_TEXT_BYTES);
    uint64_t n = file->n_bytes / PS_SNAP_CHUNK_BYTES + (file->n_bytes % PS_SNAP_CHUNK_BYTES != 0);
    if (text == NULL || strlen(text) % SUM_DIGITS != 0 || strlen(text) / SUM_DIGITS != n) {
        return bad_field(err, "chunks");
    }
    file->chunks = ps_mem_array(mem, PS_MEM_OTHER, (size_t)n, sizeof(file->chunks[0]));
    if (file->chunks == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for %" PRIu64 " checksums", n);
    }
    file->n_chunks = (uint32_t)n;
    for (uint32_t i = 0; i < file->n_chunks; i++) {
        if (!ps_checksum128_parse(text + (size_t)i * SUM_DIGITS, &file->chunks[i])) {
            return bad_field(err, "chunks");
        }
    }
    return PS_OK;
}

static enum ps_status read_file(struct ps_mem *mem, const cJSON *entry, struct ps_snap_part *part,
                                struct ps_error *err)
{
    struct ps_snap_file *file = &part->files[part->n_files];
    uint32_t table = 0;
    if (!get_text(entry, "name", file->name, sizeof(file->name)) || !name_valid(file->name)) {
        return bad_field(err, "name");
    }
    if (cJSON_GetObjectItemCaseSensitive(entry, "table") != NULL) {
        if (!get_u32(entry, "table", &table) || table >= PS_TABLES_MAX) {
            return bad_field(err, "table");
        }
        file->table = table + 1;
    }
    if (!get_u64(entry, "bytes", &file->n_bytes)) {
        return bad_field(err, "bytes");
    }
    for (uint32_t i = 0; i < part->n_files; i++) {
        const struct ps_snap_file *other = &part->files[i];
        if (strcmp(other->name, file->name) == 0 ||
            (file->table != 0 && other->table == file->table)) {
            return ps_fail(err, PS_ERR_CORRUPT, "it names file '%s' twice", file->name);
        }
    }
    part->n_files++; /* Its memory is the part's from here on. */
    return read_chunks(mem, entry, file, err);
}

static enum ps_status read_files(struct ps_mem *mem, const cJSON *json, struct ps_snap_part *part,
                                 struct ps_error *err)
{
    const cJSON *files = cJSON_GetObjectItemCaseSensitive(json, "files");
    const cJSON *entry = NULL;
    int n = cJSON_IsArray(files) ? cJSON_GetArraySize(files) : -1;
    if (n < 0 || n > (int)PS_SNAP_FILES_MAX) {
        return bad_field(err, "files");
    }
    part->files = ps_mem_array(mem, PS_MEM_OTHER, (size_t)n, sizeof(part->files[0]));
    if (part->files == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a list of %d files", n);
    }
    enum ps_status status = PS_OK;
    cJSON_ArrayForEach(entry, files)
    {
        status = status == PS_OK ? read_file(mem, entry, part, err) : status;
    }
    return status;
}

static enum ps_status read_slots(const cJSON *json, struct ps_snap_part *part, struct ps_error *err)
{
    const cJSON *slots = cJSON_GetObjectItemCaseSensitive(json, "slots");
    const cJSON *entry = NULL;
    if (!cJSON_IsArray(slots)) {
        return bad_field(err, "slots");
    }
    cJSON_ArrayForEach(entry, slots)
    {
        struct ps_snap_slot slot;
        if (part->n_slots == PS_SLOTS || !get_u32(entry, "slot", &slot.slot) ||
            !get_u64(entry, "epoch", &slot.epoch) || !get_u64(entry, "position", &slot.position) ||
            slot.slot >= PS_SLOTS ||
            (part->n_slots > 0 && slot.slot <= part->slots[part->n_slots - 1].slot)) {
            return bad_field(err, "slots");
        }
        part->slots[part->n_slots++] = slot;
    }
    return PS_OK;
}

static enum ps_status read_part(struct ps_mem *mem, const cJSON *json, struct ps_snap_part *part,
                                struct ps_error *err)
{
    if (!get_u64(json, "generation", &part->generation)) {
        return bad_field(err, "generation");
    }
    if (!get_u64(json, "cut", &part->cut)) {
        return bad_field(err, "cut");
    }
    if (!get_id(json, "cluster", &part->cluster)) {
        return bad_field(err, "cluster");
    }
    if (!get_u64(json, "key_seed", &part->key_seed)) {
        return bad_field(err, "key_seed");
    }
    if (!get_u64(json, "base_lsn", &part->base_lsn)) {
        return bad_field(err, "base_lsn");
    }
    if (!get_u32(json, "servers", &part->n_servers) || part->n_servers == 0 ||
        part->n_servers > PS_SERVERS_MAX) {
        return bad_field(err, "servers");
    }
    if (!get_u32(json, "server", &part->server) || part->server >= part->n_servers) {
        return bad_field(err, "server");
    }
    enum ps_status status = read_slots(json, part, err);
    return status == PS_OK ? read_files(mem, json, part, err) : status;
}

enum ps_status ps_snap_part_read(struct ps_mem *mem, const uint8_t *data, size_t n_bytes,
                                 struct ps_snap_part *ret, struct ps_error *err)
{
    cJSON *json = NULL;
    *ret = (struct ps_snap_part){0};
    enum ps_status status = parse(data, n_bytes, &json, err);
    if (status != PS_OK) {
        return status;
    }
    status = check_format(json, err);
    status = status == PS_OK ? read_part(mem, json, ret, err) : status;
    cJSON_Delete(json);
    if (status != PS_OK) {
        ps_snap_part_deinit(ret);
    }
    return status;
}

void ps_snap_part_deinit(struct ps_snap_part *part)
{
    for (uint32_t i = 0; i < part->n_files; i++) {
        ps_mem_free(part->files[i].chunks);
    }
    ps_mem_free(part->files);
    *part = (struct ps_snap_part){0};
}

static enum ps_status read_manifest_part(const cJSON *entry, struct ps_manifest *manifest,
                                         struct ps_error *err)
{
    struct ps_manifest_part part = {0};
    if (manifest->n_parts == PS_SERVERS_MAX || !get_u32(entry, "server", &part.server) ||
        part.server != manifest->n_parts) {
        return bad_field(err, "server");
    }
    if (!get_text(entry, "address", part.address, sizeof(part.address))) {
        return bad_field(err, "address");
    }
    const cJSON *here = cJSON_GetObjectItemCaseSensitive(entry, "here");
    if (!cJSON_IsBool(here)) {
        return bad_field(err, "here");
    }
    part.here = cJSON_IsTrue(here);
    if (!get_u64(entry, "bytes", &part.n_bytes)) {
        return bad_field(err, "bytes");
    }
    if (!get_sum(entry, "part", &part.sum)) {
        return bad_field(err, "part");
    }
    manifest->parts[manifest->n_parts++] = part;
    return PS_OK;
}

static enum ps_status read_manifest(const cJSON *json, struct ps_manifest *manifest,
                                    struct ps_error *err)
{
    if (!get_u64(json, "generation", &manifest->generation)) {
        return bad_field(err, "generation");
    }
    if (!get_u64(json, "cut", &manifest->cut)) {
        return bad_field(err, "cut");
    }
    if (!get_id(json, "cluster", &manifest->cluster)) {
        return bad_field(err, "cluster");
    }
    if (!get_text(json, "taken", manifest->taken, sizeof(manifest->taken))) {
        return bad_field(err, "taken");
    }
    if (!get_u64(json, "job_bytes", &manifest->n_job_bytes)) {
        return bad_field(err, "job_bytes");
    }
    if (!get_sum(json, "job", &manifest->job_sum)) {
        return bad_field(err, "job");
    }
    const cJSON *parts = cJSON_GetObjectItemCaseSensitive(json, "parts");
    const cJSON *entry = NULL;
    enum ps_status status = PS_OK;
    cJSON_ArrayForEach(entry, parts)
    {
        status = status == PS_OK ? read_manifest_part(entry, manifest, err) : status;
    }
    return status == PS_OK && manifest->n_parts == 0 ? bad_field(err, "parts") : status;
}

enum ps_status ps_manifest_read(const uint8_t *data, size_t n_bytes, struct ps_manifest *ret,
                                struct ps_error *err)
{
    cJSON *json = NULL;
    *ret = (struct ps_manifest){0};
    enum ps_status status = parse(data, n_bytes, &json, err);
    if (status != PS_OK) {
        return status;
    }
    status = check_format(json, err);
    status = status == PS_OK ? read_manifest(json, ret, err) : status;
    cJSON_Delete(json);
    return status;
}

/* ---- Names ---------------------------------------------------------------------------------- */

void ps_snap_dir_name(uint64_t generation, uint64_t cut, char ret[PS_SNAP_DIR_BYTES])
{
    int n = snprintf(ret, PS_SNAP_DIR_BYTES, "%06" PRIu64 "-%010" PRIu64, generation, cut);
    PS_ASSERT(n > 0 && (size_t)n < PS_SNAP_DIR_BYTES);
}

bool ps_snap_dir_parse(const char *name, uint64_t *ret_generation, uint64_t *ret_cut)
{
    char first[NUMBER_BYTES];
    char again[PS_SNAP_DIR_BYTES];
    const char *dash = strchr(name, '-');
    if (dash == NULL || (size_t)(dash - name) >= sizeof(first)) {
        return false;
    }
    memcpy(first, name, (size_t)(dash - name));
    first[dash - name] = '\0';
    const char *generation = first + strspn(first, "0");
    const char *cut = dash + 1 + strspn(dash + 1, "0");
    if (!parse_u64(*generation == '\0' ? "0" : generation, ret_generation) ||
        !parse_u64(*cut == '\0' ? "0" : cut, ret_cut)) {
        return false;
    }
    ps_snap_dir_name(*ret_generation, *ret_cut, again);
    return strcmp(again, name) == 0; /* One name for each, and no other. */
}
