/* A stand-in for NVIDIA's management library: pynvml loads it like the real one, and a text file says what machine it is.
 *
 * The file is named in FAKE_NVML and read again at every initialisation. Lines are `key = value`; the last one wins:
 *   driver, cuda, nvml, count, cc            the host
 *   gpu.0.name, gpu.*.name                   one GPU, or every GPU that says nothing of its own
 *   gpu.0.mig.1.uuid                         one MIG device of one GPU
 *   error.SYMBOL, gpu.1.error.SYMBOL         a code in place of an answer; gpu.1.error.* for all of one GPU
 *   passing.SYMBOL = CODE TIMES              a code for the first so many calls
 *   hang.SYMBOL = PATH                       no answer while that file is there
 * What has no line is NOT_SUPPORTED, as an absent feature of a real card.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, MISMATCH = 25 };
enum { MAGIC = 0x47505500, GPUS = 16, MIGS = 8, LINES = 4096 };

typedef struct { int magic, gpu, mig; } Handle;
typedef struct { char *key, *value; } Line;

static Line lines[LINES];
static int line_count, started, passed;
static Handle handles[GPUS][MIGS + 1];

static void forget(void) {
    for (int at = 0; at < line_count; at++) { free(lines[at].key); free(lines[at].value); }
    line_count = 0;
}

static char *trimmed(char *text) {
    while (*text == ' ' || *text == '\t') text++;
    size_t end = strlen(text);
    while (end && strchr(" \t\r\n", text[end - 1])) text[--end] = 0;
    return text;
}

static void load(void) {
    const char *name = getenv("FAKE_NVML");
    FILE *file = name ? fopen(name, "r") : NULL;
    char line[1024];
    forget();
    passed = 0;
    while (file && line_count < LINES && fgets(line, sizeof line, file)) {
        char *equals = strchr(line, '=');
        if (*line == '#' || !equals) continue;
        *equals = 0;
        lines[line_count++] = (Line){strdup(trimmed(line)), strdup(trimmed(equals + 1))};
    }
    if (file) fclose(file);
}

static const char *find(const char *key) {
    for (int at = line_count - 1; at >= 0; at--) if (!strcmp(lines[at].key, key)) return lines[at].value;
    return NULL;
}

static const char *of(const Handle *handle, const char *what) {
    char key[256];
    const char *found;
    if (handle->mig >= 0) {
        snprintf(key, sizeof key, "gpu.%d.mig.%d.%s", handle->gpu, handle->mig, what);
        return find(key);
    }
    snprintf(key, sizeof key, "gpu.%d.%s", handle->gpu, what);
    if ((found = find(key))) return found;
    snprintf(key, sizeof key, "gpu.*.%s", what);
    return find(key);
}

static int host(const char *symbol) {
    char key[256];
    const char *found;
    snprintf(key, sizeof key, "hang.%s", symbol);
    if ((found = find(key))) while (!access(found, F_OK)) nanosleep(&(struct timespec){0, 1000000}, NULL);
    snprintf(key, sizeof key, "passing.%s", symbol);
    if ((found = find(key))) {
        int given = 0, times = 0;
        sscanf(found, "%d %d", &given, &times);
        if (passed < times) { passed++; return given; }
    }
    snprintf(key, sizeof key, "error.%s", symbol);
    if ((found = find(key))) return atoi(found);
    return started ? OK : UNINITIALIZED;
}

static int card(const Handle *handle, const char *symbol) {
    char what[256];
    const char *found;
    int code = host(symbol);
    if (code) return code;
    if (!handle || handle->magic != MAGIC) return INVALID;
    snprintf(what, sizeof what, "error.%s", symbol);
    if ((found = of(handle, what)) || (found = of(handle, "error.*"))) return atoi(found);
    return OK;
}

static int text(const Handle *handle, const char *symbol, const char *what, char *out, unsigned size) {
    int code = card(handle, symbol);
    const char *found = code ? NULL : of(handle, what);
    if (code || !found) return code ? code : UNSUPPORTED;
    if (strlen(found) + 1 > size) return TOO_SMALL;
    for (const char *at = found; *at; at++) {  /* \xFF in the file is that byte */
        unsigned byte;
        if (at[0] == '\\' && at[1] == 'x' && sscanf(at + 2, "%2x", &byte) == 1) { *out++ = (char)byte; at += 3; }
        else *out++ = *at;
    }
    *out = 0;
    return OK;
}

static int numbers(const Handle *handle, const char *symbol, const char *what, unsigned *one, unsigned *two) {
    int code = card(handle, symbol);
    const char *found = code ? NULL : of(handle, what);
    if (code || !found) return code ? code : UNSUPPORTED;
    unsigned first = 0, second = 0;
    sscanf(found, "%u%*[^0-9]%u", &first, &second);
    *one = first;
    if (two) *two = second;
    return OK;
}

#define TEXT(symbol, what) \
    int symbol(Handle *handle, char *out, unsigned size) { return text(handle, #symbol, what, out, size); }
#define NUMBER(symbol, what) \
    int symbol(Handle *handle, unsigned *out) { return numbers(handle, #symbol, what, out, NULL); }
#define NUMBERS(symbol, what) \
    int symbol(Handle *handle, unsigned *one, unsigned *two) { return numbers(handle, #symbol, what, one, two); }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    load();
    started++;
    int code = host("nvmlInitWithFlags");
    if (code) started--;
    return code;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlInit(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { if (!started) return UNINITIALIZED; started--; return OK; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the fake"; }

static int said(const char *symbol, const char *key, char *out, unsigned size) {
    int code = host(symbol);
    const char *found = code ? NULL : find(key);
    if (code || !found) return code ? code : UNSUPPORTED;
    if (strlen(found) + 1 > size) return TOO_SMALL;
    strcpy(out, found);
    return OK;
}
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return said("nvmlSystemGetDriverVersion", "driver", out, size); }
int nvmlSystemGetNVMLVersion(char *out, unsigned size) { return said("nvmlSystemGetNVMLVersion", "nvml", out, size); }
static int cuda(const char *symbol, int *out) {
    int code = host(symbol);
    const char *found = code ? NULL : find("cuda");
    if (code || !found) return code ? code : UNSUPPORTED;
    *out = atoi(found);
    return OK;
}
int nvmlSystemGetCudaDriverVersion(int *out) { return cuda("nvmlSystemGetCudaDriverVersion", out); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return cuda("nvmlSystemGetCudaDriverVersion_v2", out); }
typedef struct { unsigned environment, feature, dev_tools; } ConfCompute;
int nvmlSystemGetConfComputeState(ConfCompute *out) {
    int code = host("nvmlSystemGetConfComputeState");
    const char *found = code ? NULL : find("cc");
    if (code || !found) return code ? code : UNSUPPORTED;
    *out = (ConfCompute){(unsigned)atoi(found), (unsigned)atoi(found), 0};
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *out) {
    int code = host("nvmlDeviceGetCount_v2");
    const char *found = code ? NULL : find("count");
    *out = found ? (unsigned)atoi(found) : 0;
    return code;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **out) {
    int code = host("nvmlDeviceGetHandleByIndex_v2");
    const char *count = find("count");
    if (code) return code;
    if (index >= GPUS || !count || index >= (unsigned)atoi(count)) return INVALID;
    *out = &handles[index][0];
    **out = (Handle){MAGIC, (int)index, -1};
    return card(*out, "nvmlDeviceGetHandleByIndex_v2");
}
int nvmlDeviceGetMigDeviceHandleByIndex(Handle *handle, unsigned index, Handle **out) {
    int code = card(handle, "nvmlDeviceGetMigDeviceHandleByIndex");
    const char *most = code ? NULL : of(handle, "max_mig");
    if (code) return code;
    if (!most || index >= (unsigned)atoi(most) || index >= MIGS) return INVALID;
    Handle part = {MAGIC, handle->gpu, (int)index};
    if (!of(&part, "uuid")) return NOT_FOUND;
    *out = &handles[handle->gpu][index + 1];
    **out = part;
    return OK;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle *handle, Handle **out) {
    int code = card(handle, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
    if (!code) *out = &handles[handle->gpu][0];
    return code;
}
int nvmlDeviceIsMigDeviceHandle(Handle *handle, unsigned *out) {
    *out = handle && handle->magic == MAGIC && handle->mig >= 0;
    return OK;
}

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
NUMBER(nvmlDeviceGetNumGpuCores, "cores")
NUMBER(nvmlDeviceGetMinorNumber, "minor")
NUMBER(nvmlDeviceGetArchitecture, "architecture")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetVirtualizationMode, "virtualization")
NUMBER(nvmlDeviceGetMaxMigDeviceCount, "max_mig")
NUMBER(nvmlDeviceGetGpuInstanceId, "gpu_instance")
NUMBER(nvmlDeviceGetComputeInstanceId, "compute_instance")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "pages_pending")
NUMBERS(nvmlDeviceGetEccMode, "ecc")
NUMBERS(nvmlDeviceGetMigMode, "mig_mode")
NUMBERS(nvmlDeviceGetCudaComputeCapability, "capability")

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, ids, subsystem;
    char id[32];
} Pci;
int nvmlDeviceGetPciInfo_v3(Handle *handle, Pci *out) {
    int code = card(handle, "nvmlDeviceGetPciInfo_v3");
    const char *found = code ? NULL : of(handle, "ids");
    if (code || !found) return code ? code : UNSUPPORTED;
    memset(out, 0, sizeof *out);
    out->ids = (unsigned)strtoul(found, NULL, 16);
    out->bus = 0x1b + (unsigned)handle->gpu;
    snprintf(out->id, sizeof out->id, "00000000:%02X:00.0", out->bus);
    return OK;
}
typedef struct { unsigned long long total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(Handle *handle, Memory *out) {
    int code = card(handle, "nvmlDeviceGetMemoryInfo");
    const char *found = code ? NULL : of(handle, "memory_mib");
    if (code || !found) return code ? code : UNSUPPORTED;
    *out = (Memory){strtoull(found, NULL, 10) << 20, 0, 0};
    return OK;
}
typedef struct { unsigned sms, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices; unsigned long long memory; } Attributes;
int nvmlDeviceGetAttributes_v2(Handle *handle, Attributes *out) {
    int code = card(handle, "nvmlDeviceGetAttributes_v2");
    const char *found = code ? NULL : of(handle, "sms");
    if (code || !found) return code ? code : UNSUPPORTED;
    const char *slices = of(handle, "slices"), *memory = of(handle, "memory_mib");
    memset(out, 0, sizeof *out);
    out->sms = (unsigned)atoi(found);
    out->gpu_slices = slices ? (unsigned)atoi(slices) : 0;
    out->memory = memory ? strtoull(memory, NULL, 10) : 0;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(Handle *handle, unsigned kind, unsigned counter, unsigned long long *out) {
    unsigned count = 0;
    (void)kind, (void)counter;
    int code = numbers(handle, "nvmlDeviceGetTotalEccErrors", "ecc_errors", &count, NULL);
    *out = count;
    return code;
}
int nvmlDeviceGetRemappedRows(Handle *handle, unsigned *fixed, unsigned *unfixed, unsigned *pending, unsigned *failed) {
    *fixed = *unfixed = 0;
    return numbers(handle, "nvmlDeviceGetRemappedRows", "remapped", pending, failed);
}
int nvmlDeviceGetP2PStatus(Handle *one, Handle *other, int index, int *out) {
    int code = card(one, "nvmlDeviceGetP2PStatus");
    const char *found = code ? NULL : find("nvlink");
    (void)index;
    if (code || !found) return code ? code : UNSUPPORTED;
    *out = !strcmp(found, "all") || (!strcmp(found, "pairs") && one->gpu / 2 == other->gpu / 2) ? 0 : 1;
    return OK;
}
typedef struct { unsigned version; unsigned char cluster[16]; unsigned status, clique; unsigned char state; unsigned health; } Fabric;
int nvmlDeviceGetGpuFabricInfoV(Handle *handle, Fabric *out) {
    unsigned state = 0;
    int code = card(handle, "nvmlDeviceGetGpuFabricInfoV");
    if (!code && out->version != (2u << 24 | 36u)) return MISMATCH;
    if (!code) code = numbers(handle, "nvmlDeviceGetGpuFabricInfoV", "fabric", &state, NULL);
    out->state = (unsigned char)state;
    return code;
}
typedef struct { unsigned pid, pad; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;
static int process(Handle *handle, const char *symbol, unsigned *count, Process *out) {  /* pid = PID [GI CI] */
    int code = card(handle, symbol);
    const char *found = code ? NULL : of(handle, "pid");
    if (code) return code;
    if (!found) { *count = 0; return OK; }
    if (!out || *count < 1) { *count = 1; return TOO_SMALL; }
    *count = 1;
    *out = (Process){0, 0, 0, ~0u, ~0u};
    sscanf(found, "%u %u %u", &out->pid, &out->gpu_instance, &out->compute_instance);
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(Handle *handle, unsigned *count, Process *out) {
    return process(handle, "nvmlDeviceGetComputeRunningProcesses_v2", count, out);
}
int nvmlDeviceGetComputeRunningProcesses_v3(Handle *handle, unsigned *count, Process *out) {
    return process(handle, "nvmlDeviceGetComputeRunningProcesses_v3", count, out);
}
