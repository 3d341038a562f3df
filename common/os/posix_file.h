#ifndef PS_COMMON_OS_POSIX_FILE_H
#define PS_COMMON_OS_POSIX_FILE_H
/*
 * os/posix_file.h — open files, directories and locks of this machine: the part of os/posix_disk
 * that is not about whole files. Each as in port/disk.h.
 */
#include "port/disk.h"

PS_MUST_CHECK enum ps_status ps_posix_file_open(struct ps_disk *disk, const char *path,
                                                enum ps_disk_open how, struct ps_disk_file **ret,
                                                struct ps_error *err);
PS_MUST_CHECK enum ps_status ps_posix_file_lock(struct ps_disk *disk, const char *path,
                                                struct ps_disk_file **ret, struct ps_error *err);
PS_MUST_CHECK enum ps_status ps_posix_dir_sync(struct ps_disk *disk, const char *path,
                                               struct ps_error *err);
PS_MUST_CHECK enum ps_status ps_posix_dir_list(struct ps_disk *disk, const char *path,
                                               struct ps_disk_entry **ret, size_t *ret_n,
                                               struct ps_error *err);
PS_MUST_CHECK enum ps_status ps_posix_remove(struct ps_disk *disk, const char *path,
                                             struct ps_error *err);
PS_MUST_CHECK enum ps_status ps_posix_rename(struct ps_disk *disk, const char *from, const char *to,
                                             struct ps_error *err);

/** The status for a failed call, with "<path>: <what>: <words for errno>". */
enum ps_status ps_posix_failed(struct ps_error *err, int error, const char *path, const char *what);

#endif
