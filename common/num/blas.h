#ifndef PS_COMMON_NUM_BLAS_H
#define PS_COMMON_NUM_BLAS_H
/*
 * num/blas.h — products of dense row-major matrices, by OpenBLAS.
 *
 * Rows are contiguous: the distance between rows is the number of columns. Pin OpenBLAS with
 * ps_blas_threads(1) at start: the processes around it already use every core. Any thread.
 */
#include <stddef.h>
#include <stdint.h>

/** Threads that OpenBLAS may use for one product, process-wide. Call it before the first one. */
void ps_blas_threads(uint32_t n);

enum ps_gemm_kind {
    PS_GEMM_NN, /* C = alpha * A   * B   + beta * C;  A [m][k], B [k][n] */
    PS_GEMM_TN, /* C = alpha * A^T * B   + beta * C;  A [k][m], B [k][n] */
    PS_GEMM_NT, /* C = alpha * A   * B^T + beta * C;  A [m][k], B [n][k] */
};

struct ps_gemm {
    enum ps_gemm_kind kind;
    size_t m;    /* Rows of C. */
    size_t n;    /* Columns of C. */
    size_t k;    /* Terms per element of C. */
    float alpha; /* Factor of the product. */
    float beta;  /* Factor of what C holds before; 0 does not read C. */
};

/** Compute `c` [m][n] as the kind says. `c` overlaps neither `a` nor `b`; m, n, k < 2^31. */
void ps_gemm(const struct ps_gemm *op, const float *a, const float *b, float *c);

#endif
