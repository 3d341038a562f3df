#ifndef PS_TOOLS_PSCTL_MODEL_H
#define PS_TOOLS_PSCTL_MODEL_H
/*
 * psctl_model.h — the commands about a trained model: predict, eval, export.
 *
 *   --model: a file  ──┐                        ┌─ text: psctl_text.c
 *                      ├── struct psctl_model ──┤
 *   --coordinator ─────┘                        └─ images: psctl_images.c
 */
#include <stdint.h>

#include <ps/client.h>

#include "base/attr.h"
#include "base/error.h"
#include "psctl_options.h"
#include "train/dense_file.h"
#include "train/model_file.h"
#include "train/row_source.h"
#include "train/setup.h"

/** A model that was opened. Of text it has a setup and a source, of images a dense file. */
struct psctl_model {
    const struct psctl_options *options;
    char path[PS_MODEL_PATH_BYTES]; /* Of its file; "": a live cluster. */
    struct ps_file_view view;
    struct ps_model_file *file;
    struct ps_dense_file dense;
    struct ps_client *client;
    struct ps_setup *live; /* The setup of a live cluster. */
    struct ps_setup *setup;
    struct ps_row_source *source;
};

/** Which flags go together with the command. @return PS_ERR_INVALID */
PS_MUST_CHECK enum ps_status psctl_model_check(const struct ps_conf *conf,
                                               const struct psctl_options *options,
                                               struct ps_error *err);

/** Run the command and say how it went. @return the exit status */
int psctl_predict(const struct ps_conf *conf, const struct psctl_options *options);
int psctl_eval(const struct ps_conf *conf, const struct psctl_options *options);
int psctl_export(const struct ps_conf *conf, const struct psctl_options *options);

/* What follows is for the files behind it. */

PS_MUST_CHECK enum ps_status psctl_text_predict(struct psctl_model *model, struct ps_error *err);
PS_MUST_CHECK enum ps_status psctl_text_eval(struct psctl_model *model, struct ps_error *err);
PS_MUST_CHECK enum ps_status psctl_images_predict(struct psctl_model *model, struct ps_error *err);
PS_MUST_CHECK enum ps_status psctl_images_eval(struct psctl_model *model, struct ps_error *err);

/** Everything in the file as NumPy files, or linear models as text. */
PS_MUST_CHECK enum ps_status psctl_export_npy(struct psctl_model *model, struct ps_error *err);
PS_MUST_CHECK enum ps_status psctl_export_text(struct psctl_model *model, struct ps_error *err);

/** What eval found; NaN: does not apply. */
struct psctl_figures {
    uint64_t rows;
    uint64_t rows_bad;
    double loss;
    double accuracy;
    double log_loss;
    double auc;
    double rmse;
};

PS_MUST_CHECK enum ps_status psctl_print_figures(const struct psctl_options *options,
                                                 const struct psctl_figures *figures,
                                                 struct ps_error *err);

#endif
