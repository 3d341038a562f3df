/* snap_write.c — see snap_write.h. */
#include "snap/snap_write.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/failpoint.h"
#include "snap/keep.h"
#include "snap/layout.h"
#include "snap/snap_impl.h"

struct ps_snap_writer {
    struct ps_snap_writer_options options;
    char dir[PS_SNAP_PATH_BYTES];
    struct ps_tensor_view *tensors;
};

/* ---- Files ---------------------------------------------------------------------------------- */

struct ps_tensor_view *ps_snap_add_tensor(struct ps_snap_work *w, uint32_t slot, const char *what,
                                          enum ps_tensor_type type)
{
    PS_ASSERT(w->n_tensors < PS_SAFETENSORS_TENSORS_MAX);
    struct ps_tensor_view *tensor = &w->tensors[w->n_tensors++];
    *tensor = (struct ps_tensor_view){.type = type, .n_values = 1};
    int n = snprintf(tensor->name, sizeof(tensor->name), "slot.%u.%s", slot, what);
    PS_ASSERT(n > 0 && (size_t)n < sizeof(tensor->name));
    return tensor;
}

void ps_snap_shape(struct ps_tensor_view *tensor, uint32_t n_dims, uint64_t a, uint64_t b,
                   uint64_t c)
{
    uint64_t dims[] = {a, b, c};
    PS_ASSERT(n_dims <= 3);
    tensor->n_dims = n_dims;
    for (uint32_t i = 0; i < n_dims; i++) {
        tensor->dims[i] = dims[i];
        tensor->n_values *= dims[i];
    }
}

enum ps_status ps_snap_begin_file(struct ps_snap_work *w, const char *name, uint32_t table)
{
    struct ps_tensor_file file = {.tensors = w->tensors, .n_tensors = w->n_tensors};
    uint8_t *head = NULL;
    size_t n_head = 0;
    enum ps_status status = ps_safetensors_head(w->options->mem, &file, &head, &n_head, w->err);
    if (status == PS_OK) {
        status =
            ps_snap_out_open(&w->out, w->options->disk, w->options->mem, w->temp, name, w->err);
    }
    if (status == PS_OK) {
        w->out.about.table = table;
        status = ps_snap_out_put(&w->out, head, n_head, w->err);
    }
    ps_mem_free(head);
    return status;
}

enum ps_status ps_snap_end_file(struct ps_snap_work *w)
{
    struct ps_snap_file *file = &w->part.files[w->part.n_files];
    PS_ASSERT(w->part.n_files < w->job->n_tables + 2);
    enum ps_status status = ps_snap_out_finish(&w->out, w->sync, file, w->err);
    if (status == PS_OK) {
        w->part.n_files++;
        w->write->n_bytes += file->n_bytes;
    }
    return status;
}

enum ps_status ps_snap_go_on(const struct ps_snap_work *w)
{
    return atomic_load_explicit(&w->write->called_off, memory_order_relaxed)
               ? ps_fail(w->err, PS_ERR_CANCELED, "the cut was given up")
               : PS_OK;
}

/* Definitions of the tables, and the lines of the slots. */
static enum ps_status write_slots(struct ps_snap_work *w)
{
    w->n_tensors = 0;
    for (uint32_t t = 0; t < w->job->n_tables; t++) {
        struct ps_tensor_view *tensor = ps_snap_add_tensor(w, 0, PS_SNAP_LINE, PS_TENSOR_U8);
        (void)snprintf(tensor->name, sizeof(tensor->name), "table.%u", t);
        ps_snap_shape(tensor, 1, w->job->tables[t].n_bytes, 1, 1);
    }
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        if (w->cut->slots[s].taken) {
            ps_snap_shape(ps_snap_add_tensor(w, s, PS_SNAP_LINE, PS_TENSOR_U8), 1,
                          w->cut->slots[s].n_state_bytes, 1, 1);
        }
    }
    enum ps_status status = ps_snap_begin_file(w, PS_SNAP_SLOTS, 0);
    for (uint32_t t = 0; status == PS_OK && t < w->job->n_tables; t++) {
        status = ps_snap_out_put(&w->out, w->job->tables[t].definition, w->job->tables[t].n_bytes,
                                 w->err);
    }
    for (uint32_t s = 0; status == PS_OK && s < PS_SLOTS; s++) {
        if (w->cut->slots[s].taken) {
            status = ps_snap_out_put(&w->out, w->cut->slots[s].state,
                                     w->cut->slots[s].n_state_bytes, w->err);
        }
    }
    return status == PS_OK ? ps_snap_end_file(w) : status;
}

/* PART, the last of the files. */
static enum ps_status write_list(struct ps_snap_work *w)
{
    char path[PS_SNAP_PATH_BYTES];
    uint8_t *text = NULL;
    size_t n_bytes = 0;
    struct ps_disk_file *file = NULL;
    for (uint32_t s = 0; s < PS_SLOTS; s++) {
        const struct ps_slot_cut *slot = &w->cut->slots[s];
        if (slot->taken) {
            w->part.slots[w->part.n_slots++] =
                (struct ps_snap_slot){.slot = s, .epoch = slot->epoch, .position = slot->position};
        }
    }
    enum ps_status status = ps_snap_path(w->temp, PS_SNAP_PART, path, w->err);
    if (status == PS_OK) {
        status = ps_snap_part_write(w->options->mem, &w->part, &text, &n_bytes, w->err);
    }
    if (status == PS_OK) {
        status = ps_disk_open(w->options->disk, path, PS_DISK_CREATE, &file, w->err);
    }
    if (status == PS_OK) {
        struct ps_slice slice = {.data = text, .n_bytes = n_bytes};
        status = ps_disk_file_write(file, 0, &slice, 1, w->err);
    }
    if (status == PS_OK && w->sync) {
        status = ps_disk_file_sync(file, w->err);
    }
    ps_disk_file_close(file);
    if (status == PS_OK) {
        w->write->sum = ps_checksum128(text, n_bytes);
        w->write->n_bytes += n_bytes;
    }
    ps_mem_free(text);
    return status;
}

static enum ps_status write_files(struct ps_snap_work *w)
{
    enum ps_status status = PS_OK;
    for (uint32_t t = 0; status == PS_OK && t < w->job->n_tables; t++) {
        status = ps_snap_write_table(w, t);
    }
    status = status == PS_OK ? write_slots(w) : status;
    status = status == PS_OK ? ps_snap_write_staged(w) : status;
    ps_failpoint("snap.after_data");
    status = status == PS_OK ? ps_snap_go_on(w) : status;
    ps_failpoint("snap.before_manifest");
    return status == PS_OK ? write_list(w) : status;
}

/* ---- Folders -------------------------------------------------------------------------------- */

static enum ps_status make_place(struct ps_snap_work *w, const char *dir)
{
    struct ps_disk *disk = w->options->disk;
    char name[PS_SNAP_DIR_BYTES];
    char server[32];
    ps_snap_dir_name(w->job->generation, w->job->cut, name);
    (void)snprintf(server, sizeof(server), PS_SNAP_SERVER "%u", w->job->server);
    enum ps_status status = ps_snap_path(dir, name, w->folder, w->err);
    if (status == PS_OK) {
        status = ps_snap_path(w->folder, server, w->place, w->err);
    }
    if (status == PS_OK) {
        (void)snprintf(server, sizeof(server), PS_SNAP_SERVER "%u" PS_SNAP_TEMP, w->job->server);
        status = ps_snap_path(w->folder, server, w->temp, w->err);
    }
    if (status == PS_OK) {
        status =
            ps_snap_remove_folder(disk, w->temp, w->err); /* Of a process that ended meanwhile. */
    }
    return status == PS_OK ? ps_disk_make_dir(disk, w->temp, w->err) : status;
}

static enum ps_status sync_folder(struct ps_snap_work *w, const char *path)
{
#ifdef PS_PLANT
    if (w->options->plant == PS_SNAP_PLANT_DIR_NOT_SYNCED) {
        return PS_OK;
    }
#endif
    return ps_disk_sync_dir(w->options->disk, path, w->err);
}

/* All is written and synced: it gets its name, and that is made to last. */
static enum ps_status put_in_place(struct ps_snap_work *w, const char *dir)
{
    enum ps_status status = sync_folder(w, w->temp);
    ps_failpoint("snap.before_rename");
    if (status == PS_OK) {
        status = ps_disk_rename(w->options->disk, w->temp, w->place, w->err);
    }
    status = status == PS_OK ? sync_folder(w, w->folder) : status;
    status = status == PS_OK ? sync_folder(w, dir) : status;
    ps_failpoint("snap.after_rename");
    return status;
}

/* ---- The actor ------------------------------------------------------------------------------ */

static void clean_up(struct ps_snap_work *w, enum ps_status status)
{
    ps_snap_out_cancel(&w->out);
    if (status != PS_OK) {
        /* Best effort: a .tmp is no part, and the cut's folder stays if somebody else is in it. */
        enum ps_status temp = ps_snap_remove_folder(w->options->disk, w->temp, NULL);
        enum ps_status folder = ps_disk_remove(w->options->disk, w->folder, NULL);
        (void)temp;
        (void)folder;
    }
    ps_snap_part_deinit(&w->part);
    ps_cut_free(w->cut);
}

static enum ps_status write_part(struct ps_snap_writer *writer, struct ps_snap_work *w)
{
    const struct ps_snap_job *job = w->job;
    w->part = (struct ps_snap_part){.generation = job->generation,
                                    .cut = job->cut,
                                    .cluster = job->cluster,
                                    .key_seed = job->key_seed,
                                    .base_lsn = w->cut->base_lsn,
                                    .server = job->server,
                                    .n_servers = job->n_servers};
    w->part.files = ps_mem_array(writer->options.mem, PS_MEM_OTHER, job->n_tables + 2u,
                                 sizeof(w->part.files[0]));
    if (w->part.files == NULL) {
        return ps_fail(w->err, PS_ERR_NOMEM, "no memory for a list of files");
    }
    enum ps_status status = make_place(w, writer->dir);
    status = status == PS_OK ? write_files(w) : status;
    return status == PS_OK ? put_in_place(w, writer->dir) : status;
}

static void run(struct ps_mail *mail)
{
    struct ps_snap_write *write = PS_CONTAINER_OF(mail, struct ps_snap_write, mail);
    struct ps_snap_writer *writer = write->writer;
    uint64_t began_ms = ps_exec_now_ms(writer->options.exec);
    struct ps_exec *home = write->home;
    write->err = (struct ps_error){0};
    write->n_bytes = 0;
    struct ps_snap_work *w = ps_mem_alloc(writer->options.mem, PS_MEM_OTHER, sizeof(*w));
    if (w == NULL) {
        (void)ps_fail(&write->err, PS_ERR_NOMEM, "no memory to write a snapshot");
        ps_cut_free(write->cut);
    } else {
        *w = (struct ps_snap_work){.options = &writer->options,
                                   .write = write,
                                   .job = &write->job,
                                   .cut = write->cut,
                                   .tensors = writer->tensors,
                                   .sync = true,
                                   .err = &write->err};
#ifdef PS_PLANT
        w->sync = writer->options.plant != PS_SNAP_PLANT_RENAME_BEFORE_SYNC;
#endif
        enum ps_status status = write_part(writer, w);
        clean_up(w, status);
        write->err.status = status; /* Words of what was passed over may be left in it. */
        ps_mem_free(w);
    }
    write->cut = NULL;
    write->ms = ps_exec_now_ms(writer->options.exec) - began_ms;
    ps_exec_post(home, &write->done);
}

/* The folders on the way to `dir` are there after a power cut, too. */
static enum ps_status sync_way(struct ps_disk *disk, const char *dir, struct ps_error *err)
{
    char path[PS_SNAP_PATH_BYTES];
    enum ps_status status = PS_OK;
    for (size_t i = 0; status == PS_OK && dir[i] != '\0'; i++) {
        if (dir[i] == '/' && i > 0) {
            memcpy(path, dir, i);
            path[i] = '\0';
            status = ps_disk_sync_dir(disk, path, err);
        }
    }
    if (status == PS_OK) {
        /* A disk that knows no working directory has no "." */
        status = ps_disk_sync_dir(disk, dir[0] == '/' ? "/" : ".", err);
        status = status == PS_ERR_NOT_FOUND ? PS_OK : status;
    }
    return status;
}

enum ps_status ps_snap_writer_create(const struct ps_snap_writer_options *options,
                                     struct ps_snap_writer **ret, struct ps_error *err)
{
    struct ps_snap_writer *writer = ps_mem_alloc(options->mem, PS_MEM_OTHER, sizeof(*writer));
    size_t n_dir = strlen(options->dir);
    if (writer == NULL) {
        return ps_fail(err, PS_ERR_NOMEM, "no memory for a writer of snapshots");
    }
    if (n_dir == 0 || n_dir >= sizeof(writer->dir)) {
        ps_mem_free(writer);
        return ps_fail(err, PS_ERR_INVALID, "a snapshot directory of %zu bytes", n_dir);
    }
    memcpy(writer->dir, options->dir, n_dir + 1);
    writer->options = *options;
    writer->options.dir = writer->dir;
    writer->tensors = ps_mem_array(options->mem, PS_MEM_OTHER, PS_SAFETENSORS_TENSORS_MAX,
                                   sizeof(writer->tensors[0]));
    enum ps_status status = writer->tensors != NULL
                                ? PS_OK
                                : ps_fail(err, PS_ERR_NOMEM, "no memory for a writer of snapshots");
    status = status == PS_OK ? ps_disk_make_dir(options->disk, writer->dir, err) : status;
    status = status == PS_OK ? sync_way(options->disk, writer->dir, err) : status;
    if (status != PS_OK) {
        ps_snap_writer_destroy(writer);
        return status;
    }
    *ret = writer;
    return PS_OK;
}

void ps_snap_writer_post(struct ps_snap_writer *writer, struct ps_snap_write *write)
{
    write->writer = writer;
    write->mail.run = run;
    ps_exec_post(writer->options.exec, &write->mail);
}

void ps_snap_writer_destroy(struct ps_snap_writer *writer)
{
    if (writer != NULL) {
        ps_mem_free(writer->tensors);
        ps_mem_free(writer);
    }
}
