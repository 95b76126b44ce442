/* A stand-in for the CUDA driver library: FAKE_CUDA holds the code of cuInit and how many devices it sees, `0 2`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(int at) {
    const char *told = getenv("FAKE_CUDA");
    int code = 0, count = 1;
    if (told && !strcmp(told, "crash")) abort();
    if (told) sscanf(told, "%d %d", &code, &count);
    return at ? count : code;
}
int cuInit(unsigned flags) { (void)flags; return number(0); }
int cuDriverGetVersion(int *out) { *out = 12080; return 0; }
int cuDeviceGetCount(int *out) { *out = number(1); return 0; }
