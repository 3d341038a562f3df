#ifndef PS_TESTS_UNIT_DATA_GZ_TEXT_H
#define PS_TESTS_UNIT_DATA_GZ_TEXT_H
/*
 * gz_text.h — the text of a gzip or plain file, for tests that look at data they may not have.
 */

/** A new string that ends in 0, or NULL when there is no such file. */
char *gz_text(const char *path);

#endif
