/* A library with NVML's ABI that reports two devices. FAKE_NVML chooses what goes wrong:
   "" all is well, "no_devices", "mismatch" (library and driver differ), "no_processes", "old" (no v3 process list),
   "mig" (the first device is partitioned). The second device is lost once the file FAKE_NVML_LOST exists. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, NO_FUNCTION = 13, LOST = 15, MISMATCH = 18 };

typedef struct { int number; const char *uuid, *name; unsigned long long total, used; int utilisation; } Device;
typedef struct { unsigned long long total, freed, used; } Memory;
typedef struct { unsigned int gpu, memory; } Rates;
typedef struct { unsigned int pid; unsigned long long used; unsigned int instance, compute; } Process;

static Device devices[] = {
    {0, "GPU-11111111-0000-0000-0000-000000000000", "Fake A", 80000000000ULL, 5000000000ULL, 37},
    {1, "GPU-22222222-0000-0000-0000-000000000000", "Fake B", 40000000000ULL, 1000000000ULL, 0},
};
static Device part = {2, "MIG-33333333-0000-0000-0000-000000000000", "Fake A MIG 1g.10gb", 10000000000ULL, 700000000ULL, 0};

static int mode(const char *name) {
    const char *set = getenv("FAKE_NVML");
    return set && strcmp(set, name) == 0;
}
static int lost(const Device *device) {
    const char *path = getenv("FAKE_NVML_LOST");
    return path && device->number == 1 && access(path, F_OK) == 0;
}
static int text(char *to, unsigned int length, const char *from) {
    if (strlen(from) >= length) return SMALL;
    strcpy(to, from);
    return OK;
}

int nvmlInitWithFlags(unsigned int flags) { (void)flags; return mode("mismatch") ? MISMATCH : OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "fake"; }
int nvmlSystemGetDriverVersion(char *to, unsigned int length) { return text(to, length, "570.00.fake"); }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = mode("no_devices") ? 0 : 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device **device) {
    if (index > 1) return INVALID;
    *device = &devices[index];
    return lost(*device) ? LOST : OK;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device) {
    if (strcmp(uuid, part.uuid)) return NOT_FOUND;
    *device = &part;
    return OK;
}
int nvmlDeviceGetUUID(Device *device, char *to, unsigned int length) { return text(to, length, device->uuid); }
int nvmlDeviceGetName(Device *device, char *to, unsigned int length) {
    return lost(device) ? LOST : text(to, length, device->name);
}
int nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    if (lost(device)) return LOST;
    memory->total = device->total, memory->used = device->used, memory->freed = device->total - device->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(Device *device, Rates *rates) {
    if (device == &part) return NOT_SUPPORTED;
    rates->gpu = device->utilisation, rates->memory = 0;
    return OK;
}
static int processes(Device *device, unsigned int *count, Process *list) {
    if (mode("no_processes")) return NOT_SUPPORTED;
    if (device->number == 1) { *count = 0; return OK; }
    if (*count < 2) { *count = 2; return SMALL; }
    *count = 2;
    list[0] = (Process){1, 4000000000ULL, 0, 0};
    list[1] = (Process){(unsigned int)getpid(), 900000000ULL, 0, 0};
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned int *count, Process *list) {
    return mode("old") ? NO_FUNCTION : processes(device, count, list);
}
int nvmlDeviceGetComputeRunningProcesses_v2(Device *device, unsigned int *count, Process *list) {
    return processes(device, count, list);
}
int nvmlDeviceGetMigMode(Device *device, unsigned int *now, unsigned int *pending) {
    if (!mode("mig") || device->number != 0) return NOT_SUPPORTED;
    *now = *pending = 1;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned int *count) { (void)device; *count = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned int index, Device **instance) {
    (void)device;
    if (index != 2) return NOT_FOUND;
    *instance = &part;
    return OK;
}
