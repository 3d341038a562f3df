#ifndef PS_TESTS_UNIT_DATA_TEMP_FOLDER_H
#define PS_TESTS_UNIT_DATA_TEMP_FOLDER_H
/*
 * unit/data/temp_folder.h — a folder for made files, gone when the test is; and gzip.
 */
#include <stddef.h>
#include <stdint.h>

struct temp_folder {
    char path[64];
};

void temp_folder_make(struct temp_folder *folder);

/** Removes the files in it and the folder. */
void temp_folder_remove(struct temp_folder *folder);

void temp_folder_put(const struct temp_folder *folder, const char *name, const uint8_t *data,
                     size_t n_bytes);

/** As above, packed. */
void temp_folder_put_gzip(const struct temp_folder *folder, const char *name, const uint8_t *data,
                          size_t n_bytes);

/** Pack into `out` [n_room]; returns the number of bytes. */
size_t pack_gzip(const uint8_t *data, size_t n_bytes, uint8_t *out, size_t n_room);

#endif
