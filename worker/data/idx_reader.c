/*
 * idx_reader.c — a pair of IDX files, images and labels, as MNIST and its relatives come.
 *
 * Looks for train-images-idx3-ubyte and train-labels-idx1-ubyte (test: t10k-...), plain or packed,
 * also in the spelling train-images.idx3-ubyte that some archives use.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "data/load.h"
#include "data/reader.h"

/* One of the two files of a part. */
struct side {
    const char *name;
    unsigned rank; /* The digit in the name of the file. */
};

static const struct side images_side = {"images", 3};
static const struct side labels_side = {"labels", 1};
static const char *const part_names[] = {[PS_DATA_TRAIN] = "train", [PS_DATA_TEST] = "t10k"};

static const struct {
    const char *joint;
    const char *ending;
} spellings[] = {{"-", ""}, {"-", ".gz"}, {".", ""}, {".", ".gz"}};

/* Put the path of the first spelling that exists into `path`. */
static bool find_file(const char *folder, enum ps_data_part part, const struct side *side,
                      char path[PATH_MAX])
{
    PS_ASSERT(path != NULL);
    for (size_t i = 0; i < PS_ARRAY_LEN(spellings); i++) {
        int n = snprintf(path, PATH_MAX, "%s/%s-%s%sidx%u-ubyte%s", folder, part_names[part],
                         side->name, spellings[i].joint, side->rank, spellings[i].ending);
        if (n > 0 && n < PATH_MAX && access(path, F_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* A part is present with one of its files: then a missing other one is an error worth telling. */
static bool idx_present(const char *folder, enum ps_data_part part)
{
    char path[PATH_MAX];
    return find_file(folder, part, &images_side, path) ||
           find_file(folder, part, &labels_side, path);
}

/* An IDX file in memory. `view` borrows from `file`. */
struct idx_file {
    char path[PATH_MAX];
    struct ps_load file;
    struct ps_idx_view view;
};

static enum ps_status load(const struct ps_read_request *request, const struct side *side,
                           struct idx_file *ret, struct ps_error *err)
{
    if (!find_file(request->folder, request->part, side, ret->path)) {
        return ps_fail(err, PS_ERR_NOT_FOUND, "'%s': expected a file %s-%s-idx%u-ubyte[.gz] in it",
                       request->folder, part_names[request->part], side->name, side->rank);
    }
    enum ps_status status = ps_load_file(request->mem, ret->path, &ret->file, err);
    if (status != PS_OK) {
        return status;
    }
    status = ps_idx_parse(ret->file.data, ret->file.n_bytes, &ret->view, err);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "'%s'", ret->path);
}

/* Images have at least rows and columns, labels are a plain list, and there is one per image. */
static enum ps_status check_pair(const struct idx_file *images, const struct idx_file *labels,
                                 struct ps_error *err)
{
    if (images->view.n_dims < 2) {
        return ps_fail(err, PS_ERR_INVALID,
                       "'%s': expected images (3 dimensions), found a list like that of labels "
                       "(are the two files swapped?)",
                       images->path);
    }
    if (labels->view.n_dims != 1) {
        return ps_fail(err, PS_ERR_INVALID,
                       "'%s': expected labels (1 dimension), found %" PRIu32
                       " dimensions like those of images (are the two files swapped?)",
                       labels->path, labels->view.n_dims);
    }
    if (labels->view.dims[0] != images->view.dims[0]) {
        return ps_fail(err, PS_ERR_INVALID,
                       "'%s': expected %" PRIu32 " labels, one for each image, found %" PRIu32,
                       labels->path, images->view.dims[0], labels->view.dims[0]);
    }
    size_t n_features = images->view.n_values / images->view.dims[0];
    if (n_features > PS_READER_FEATURES_MAX) {
        return ps_fail(err, PS_ERR_INVALID, "'%s': images of %zu pixels, at most %u are supported",
                       images->path, n_features, PS_READER_FEATURES_MAX);
    }
    return PS_OK;
}

static enum ps_status join(const struct ps_read_request *request, struct idx_file *images,
                           const struct idx_file *labels, struct ps_dataset **ret,
                           struct ps_error *err)
{
    enum ps_status status = check_pair(images, labels, err);
    if (status != PS_OK) {
        return status;
    }
    struct ps_dataset shape = {
        .n_rows = images->view.dims[0],
        .n_features = (uint32_t)(images->view.n_values / images->view.dims[0]),
        .n_classes = request->n_classes,
        .pixels = images->view.values,
        .owned = images->file.data,
    };
    images->file.data = NULL; /* The dataset's now, whatever comes. */
    status = ps_dataset_from_pixels(request->mem, shape, labels->view.values, ret, err);
    return status == PS_OK ? PS_OK : ps_wrap(err, status, "'%s'", labels->path);
}

static enum ps_status idx_read(const struct ps_read_request *request, struct ps_dataset **ret,
                               struct ps_error *err)
{
    PS_ASSERT((size_t)request->part < PS_ARRAY_LEN(part_names));
    struct idx_file images = {0};
    struct idx_file labels = {0};
    enum ps_status status = load(request, &images_side, &images, err);
    if (status == PS_OK) {
        status = load(request, &labels_side, &labels, err);
    }
    if (status == PS_OK) {
        status = join(request, &images, &labels, ret, err);
    }
    ps_mem_free(images.file.data);
    ps_mem_free(labels.file.data);
    return status;
}

const struct ps_reader ps_reader_idx = {
    .name = "idx",
    .help = "train-images-idx3-ubyte[.gz], train-labels-idx1-ubyte[.gz], t10k-... for the test",
    .present = idx_present,
    .read = idx_read,
};
