/* See value_file.h. */
#include "pserver/value_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "pserver/folder.h"
#include "tensor/file.h"

static pd_status file_error(const char *path, int number)
{
    return pd_fail(PD_IO, "cannot write '%s': %s; %s", path, pd_folder_error(number),
                   pd_folder_advice(number));
}

static pd_status make_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return PD_OK;
    char *folder = pd_strndup(path, (size_t)(slash - path));
    if (!folder) return pd_no_memory();
    pd_status status = pd_folder_make(folder);
    pd_free(folder);
    return status;
}

static pd_status write_aside(const struct pd_value *value, const char *aside, const char *path)
{
    FILE *file = fopen(aside, "wb");
    if (!file) return file_error(path, errno);
    pd_status status = pd_value_write_file(value, file);
    if (status != PD_OK) pd_error_add(" [file %s]", path);
    if (fclose(file) != 0 && status == PD_OK) status = file_error(path, errno);
    if (status == PD_OK && rename(aside, path) != 0) status = file_error(path, errno);
    if (status != PD_OK) remove(aside);
    return status;
}

pd_status pd_value_file_write(const struct pd_value *value, const char *path, enum pd_value_file_mode mode)
{
    struct stat info;
    struct pd_buf aside = {0};
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return pd_fail(PD_IO, "cannot write '%s': it is a folder", path);
        if (mode == PD_VALUE_FILE_KEEP)
            return pd_fail(PD_EXISTS, "the file '%s' is there already and overwrite is false", path);
    }
    PD_TRY(make_folder_of(path));
    pd_buf_printf(&aside, "%s.tmp.%ld", path, (long)getpid());
    pd_status status = aside.failed ? pd_no_memory() : write_aside(value, aside.at, path);
    pd_buf_free(&aside);
    return status;
}
