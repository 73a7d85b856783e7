/* A libnvidia-ml.so.1 whose cards are the lines of the text file $FAKE_NVML, read again at every question.
 *
 * A line is a kind (system, card, slice) and key=value fields, separated by tabs. A field that is missing is answered
 * with NOT_SUPPORTED, one that begins with ! with the error code after it. Structures as in NVIDIA's nvml.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVML_SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define DRIVER_NOT_LOADED 9

typedef unsigned long long u64;
typedef void *handle; /* the line's number, counted from 1 */

static int line_of(long wanted, char *line, size_t size) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    int found = 0;
    if (!file) return 0;
    for (long number = 1; !found && fgets(line, (int)size, file); number++) found = number == wanted;
    fclose(file);
    if (found) line[strcspn(line, "\n")] = 0;
    return found;
}

static int text_of(handle device, const char *key, char *out, size_t size) {
    char line[4096];
    if (!line_of((long)device, line, sizeof line)) return INVALID_ARGUMENT;
    size_t length = strlen(key);
    for (char *field = strtok(line, "\t"); field; field = strtok(NULL, "\t")) {
        if (strncmp(field, key, length) || field[length] != '=') continue;
        const char *value = field + length + 1;
        if (*value == '!') return atoi(value + 1);
        if (strlen(value) >= size) return INSUFFICIENT_SIZE;
        strcpy(out, value);
        return NVML_SUCCESS;
    }
    return NOT_SUPPORTED;
}

static int number_of(handle device, const char *key, u64 *out) {
    char text[64];
    int code = text_of(device, key, text, sizeof text);
    if (code == NVML_SUCCESS) *out = strtoull(text, NULL, 0);
    return code;
}

static int uint_of(handle device, const char *key, unsigned *out) {
    u64 value = 0;
    int code = number_of(device, key, &value);
    if (code == NVML_SUCCESS) *out = (unsigned)value;
    return code;
}

/* The line of the index-th `kind`, or of the one whose `key` is `value` if it is given; 0 where there is none. */
static handle find(const char *kind, unsigned index, const char *key, const char *value) {
    char line[4096], text[256];
    for (long number = 1; line_of(number, line, sizeof line); number++) {
        size_t length = strcspn(line, "\t");
        if (strlen(kind) != length || strncmp(line, kind, length)) continue;
        if (value && (text_of((handle)number, key, text, sizeof text) || strcmp(text, value))) continue;
        if (index-- == 0) return (handle)number;
    }
    return NULL;
}

static handle system_line(void) { return find("system", 0, NULL, NULL); }

int nvmlInitWithFlags(unsigned flags) {
    unsigned code = NVML_SUCCESS;
    (void)flags;
    if (!system_line()) return DRIVER_NOT_LOADED;
    return uint_of(system_line(), "init", &code) == NVML_SUCCESS ? (int)code : NVML_SUCCESS;
}
int nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "stub error"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { return text_of(system_line(), "driver", out, size); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return uint_of(system_line(), "cuda", (unsigned *)out); }

int nvmlDeviceGetCount_v2(unsigned *count) {
    for (*count = 0; find("card", *count, NULL, NULL);) ++*count;
    return NVML_SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle *device) {
    unsigned code = 0;
    *device = find("card", index, NULL, NULL);
    if (!*device) return INVALID_ARGUMENT;
    return uint_of(*device, "open", &code) == NVML_SUCCESS ? (int)code : NVML_SUCCESS;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, handle *device) {
    *device = find("card", 0, "uuid", uuid);
    if (!*device) *device = find("slice", 0, "uuid", uuid);
    return *device ? NVML_SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetUUID(handle d, char *out, unsigned size) { return text_of(d, "uuid", out, size); }
int nvmlDeviceGetName(handle d, char *out, unsigned size) { return text_of(d, "name", out, size); }

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char busId[32]; };
int nvmlDeviceGetPciInfo_v3(handle d, struct pci *out) {
    memset(out, 0, sizeof *out);
    return text_of(d, "bus", out->busId, sizeof out->busId);
}

struct memory { u64 total, free, used; };
struct memory_v2 { unsigned version; u64 total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(handle d, struct memory_v2 *out) {
    int code = number_of(d, "total", &out->total);
    if (code == NVML_SUCCESS) code = number_of(d, "used", &out->used);
    if (code == NVML_SUCCESS) code = number_of(d, "reserved", &out->reserved);
    if (code == NVML_SUCCESS) out->free = out->total - out->used - out->reserved;
    return code;
}
int nvmlDeviceGetMemoryInfo(handle d, struct memory *out) {
    u64 reserved = 0;
    int code = number_of(d, "total", &out->total);
    if (code == NVML_SUCCESS) code = number_of(d, "used", &out->used);
    number_of(d, "reserved", &reserved);
    out->used += reserved;
    out->free = out->total - out->used;
    return code;
}

int nvmlDeviceGetUtilizationRates(handle d, unsigned out[2]) { out[1] = 0; return uint_of(d, "util", out); }
int nvmlDeviceGetPowerUsage(handle d, unsigned *out) { return uint_of(d, "power", out); }
int nvmlDeviceGetTotalEnergyConsumption(handle d, u64 *out) { return number_of(d, "energy", out); }
int nvmlDeviceGetClockInfo(handle d, unsigned type, unsigned *out) {
    return type == 1 ? uint_of(d, "sm_clock", out) : NOT_SUPPORTED;
}
int nvmlDeviceGetCurrentClocksEventReasons(handle d, u64 *out) { return number_of(d, "reasons", out); }
int nvmlDeviceGetCurrentClocksThrottleReasons(handle d, u64 *out) { return number_of(d, "old_reasons", out); }

/* pids=11,12 */
struct process { unsigned pid; u64 used; unsigned gi, ci; };
int nvmlDeviceGetComputeRunningProcesses_v3(handle d, unsigned *count, struct process *out) {
    char text[512];
    unsigned room = *count, n = 0;
    int code = text_of(d, "pids", text, sizeof text);
    if (code != NVML_SUCCESS) return code;
    for (char *pid = strtok(text, ","); pid; pid = strtok(NULL, ","), n++)
        if (n < room && out) { memset(out + n, 0, sizeof *out); out[n].pid = (unsigned)atoi(pid); }
    *count = n;
    return n > room || (n && !out) ? INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* A card with slices has mig=1; a slice names its card by its UUID. */
int nvmlDeviceGetMigMode(handle d, unsigned *now, unsigned *later) {
    *later = 0;
    return uint_of(d, "mig", now);
}
int nvmlDeviceGetMaxMigDeviceCount(handle d, unsigned *out) { (void)d; *out = 7; return NVML_SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(handle d, unsigned index, handle *out) {
    char uuid[96];
    if (text_of(d, "uuid", uuid, sizeof uuid) != NVML_SUCCESS) return INVALID_ARGUMENT;
    *out = find("slice", index, "card", uuid);
    return *out ? NVML_SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle d, handle *out) {
    char uuid[96];
    if (text_of(d, "card", uuid, sizeof uuid) != NVML_SUCCESS) return INVALID_ARGUMENT;
    *out = find("card", 0, "uuid", uuid);
    return *out ? NVML_SUCCESS : NOT_FOUND;
}
int nvmlDeviceGetGpuInstanceId(handle d, unsigned *out) { return uint_of(d, "gi", out); }
int nvmlDeviceGetComputeInstanceId(handle d, unsigned *out) { return uint_of(d, "ci", out); }

/* links=GPU-1,GPU-1,switch,hidden,down: what each NVLink leads to; errors2=0,5: the links' counts of error counter 2. */
static int listed(handle d, const char *key, unsigned index, char *out, size_t size) {
    char text[1024];
    int code = text_of(d, key, text, sizeof text);
    if (code != NVML_SUCCESS) return code;
    for (char *item = strtok(text, ","); item; item = strtok(NULL, ",")) {
        if (index--) continue;
        if (strlen(item) >= size) return INSUFFICIENT_SIZE;
        strcpy(out, item);
        return NVML_SUCCESS;
    }
    return INVALID_ARGUMENT;
}
int nvmlDeviceGetNvLinkState(handle d, unsigned link, unsigned *up) {
    char target[96];
    int code = listed(d, "links", link, target, sizeof target);
    if (code == NVML_SUCCESS) *up = strcmp(target, "down") != 0;
    return code;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(handle d, unsigned link, struct pci *out) {
    char target[96];
    int code = listed(d, "links", link, target, sizeof target);
    if (code != NVML_SUCCESS) return code;
    if (!strcmp(target, "hidden")) return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    if (!strcmp(target, "switch")) strcpy(out->busId, "00000000:C1:00.0");
    else return text_of(find("card", 0, "uuid", target), "bus", out->busId, sizeof out->busId);
    return NVML_SUCCESS;
}
int nvmlDeviceGetNvLinkErrorCounter(handle d, unsigned link, unsigned counter, u64 *out) {
    char key[16], text[32];
    snprintf(key, sizeof key, "errors%u", counter);
    int code = listed(d, key, link, text, sizeof text);
    if (code == NVML_SUCCESS) *out = strtoull(text, NULL, 0);
    return code;
}

/* field52=7: the value of field id 52 */
struct field { unsigned id, scope; long long timestamp, latency; unsigned type; int code; u64 value; };
int nvmlDeviceGetFieldValues(handle d, int count, struct field *fields) {
    for (int i = 0; i < count; i++) {
        char key[24];
        snprintf(key, sizeof key, "field%u", fields[i].id);
        fields[i].code = number_of(d, key, &fields[i].value);
    }
    return NVML_SUCCESS;
}

/* near-GPU-1=30: the common ancestor with card GPU-1 */
int nvmlDeviceGetTopologyCommonAncestor(handle d, handle other, unsigned *level) {
    char key[128] = "near-";
    int code = text_of(other, "uuid", key + 5, sizeof key - 5);
    return code == NVML_SUCCESS ? uint_of(d, key, level) : code;
}

int nvmlDeviceGetCudaComputeCapability(handle d, int *major, int *minor) {
    u64 value = 0;
    int code = number_of(d, "capability", &value); /* 75 is 7.5 */
    *major = (int)(value / 10);
    *minor = (int)(value % 10);
    return code;
}
int nvmlDeviceGetPersistenceMode(handle d, unsigned *out) { return uint_of(d, "persistence", out); }
int nvmlDeviceGetEccMode(handle d, unsigned *now, unsigned *later) {
    int code = uint_of(d, "ecc", now);
    *later = *now;
    return code;
}
int nvmlDeviceGetTotalEccErrors(handle d, unsigned kind, unsigned counter, u64 *out) {
    return kind == 1 && counter == 0 ? number_of(d, "ecc_uncorrected", out) : NOT_SUPPORTED;
}
int nvmlDeviceGetEnforcedPowerLimit(handle d, unsigned *out) { return uint_of(d, "power_limit", out); }
int nvmlDeviceGetPowerManagementDefaultLimit(handle d, unsigned *out) { return uint_of(d, "power_default", out); }
int nvmlDeviceGetTemperature(handle d, unsigned sensor, unsigned *out) { (void)sensor; return uint_of(d, "celsius", out); }
int nvmlDeviceGetComputeMode(handle d, unsigned *out) { return uint_of(d, "compute_mode", out); }
int nvmlDeviceGetCurrPcieLinkWidth(handle d, unsigned *out) { return uint_of(d, "pcie_width", out); }
int nvmlDeviceGetMaxPcieLinkWidth(handle d, unsigned *out) { return uint_of(d, "pcie_max_width", out); }
int nvmlDeviceGetRemappedRows(handle d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    *corrected = *uncorrected = 0;
    int code = uint_of(d, "remap_pending", pending);
    return code == NVML_SUCCESS ? uint_of(d, "remap_failed", failed) : code;
}
