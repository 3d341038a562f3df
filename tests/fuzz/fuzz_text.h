#ifndef PS_TESTS_FUZZ_FUZZ_TEXT_H
#define PS_TESTS_FUZZ_FUZZ_TEXT_H
/*
 * fuzz/fuzz_text.h — bytes as a file of some format: learnt from, read whole, read in parts, fed
 * in units, read by the description that was stored; all of them the same rows, and rows that
 * models can take.
 */
#include <stddef.h>
#include <stdint.h>

/** The first byte chooses task, options and the size of parts; the others are the file. */
void fuzz_text(const char *format, const uint8_t *data, size_t n_bytes);

#endif
