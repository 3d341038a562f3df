/* blas.c — see blas.h. The only file that knows OpenBLAS. */
#include "num/blas.h"

#include <stdbool.h>

#include <cblas.h>

#include "base/assert.h"

void ps_blas_threads(uint32_t n)
{
    PS_ASSERT(n > 0 && n <= INT32_MAX);
    openblas_set_num_threads((int)n);
}

/* The distance between rows of `n_columns`; BLAS wants at least 1 even where nothing is read. */
static blasint row_stride(size_t n_columns)
{
    return n_columns > 0 ? (blasint)n_columns : 1;
}

void ps_gemm(const struct ps_gemm *op, const float *a, const float *b, float *c)
{
    PS_ASSERT(op->m <= INT32_MAX && op->n <= INT32_MAX && op->k <= INT32_MAX);
    if (op->m == 0 || op->n == 0) {
        return;
    }
    bool a_turned = op->kind == PS_GEMM_TN;
    bool b_turned = op->kind == PS_GEMM_NT;
    cblas_sgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans,
                b_turned ? CblasTrans : CblasNoTrans, (blasint)op->m, (blasint)op->n,
                (blasint)op->k, op->alpha, a, row_stride(a_turned ? op->m : op->k), b,
                row_stride(b_turned ? op->k : op->n), op->beta, c, row_stride(op->n));
}
