/* A file system that fails: calls on paths whose end is FAULT_PATH end with FAULT_ERRNO. FAULT_CALL names one of open, stat,
   read (after FAULT_AFTER bytes), list. Everything else is the C library's. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int hit(const char *call, const char *path) {
    const char *wanted = getenv("FAULT_CALL"), *end = getenv("FAULT_PATH"), *number = getenv("FAULT_ERRNO");
    if (!wanted || !end || !number || !path || strcmp(wanted, call)) return 0;
    size_t have = strlen(path), want = strlen(end);
    if (have < want || strcmp(path + have - want, end)) return 0;
    errno = atoi(number);
    return 1;
}

static int open_hit(const char *path, int flags) {
    return hit("open", path) || ((flags & O_DIRECTORY) && hit("list", path));
}

#define OPEN(name)                                              \
    int name(const char *path, int flags, ...) {                \
        va_list rest;                                           \
        va_start(rest, flags);                                  \
        int mode = va_arg(rest, int);                           \
        va_end(rest);                                           \
        return open_hit(path, flags) ? -1 : REAL(name)(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

DIR *opendir(const char *path) { return hit("list", path) ? NULL : REAL(opendir)(path); }

#define STAT(name, kind) \
    int name(const char *path, struct kind *found) { return hit("stat", path) ? -1 : REAL(name)(path, found); }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define STATAT(name, kind)                                                       \
    int name(int folder, const char *path, struct kind *found, int flags) {      \
        return hit("stat", path) ? -1 : REAL(name)(folder, path, found, flags);  \
    }
STATAT(fstatat, stat)
STATAT(fstatat64, stat64)

ssize_t read(int file, void *into, size_t size) {
    if (getenv("FAULT_CALL") && !strcmp(getenv("FAULT_CALL"), "read")) {
        char link[64], path[4096];
        snprintf(link, sizeof link, "/proc/self/fd/%d", file);
        ssize_t length = readlink(link, path, sizeof path - 1);
        const char *after = getenv("FAULT_AFTER");
        if (length > 0) {
            path[length] = 0;
            if (lseek(file, 0, SEEK_CUR) >= (after ? atol(after) : 0) && hit("read", path)) return -1;
        }
    }
    return REAL(read)(file, into, size);
}
