/*
 * A stand-in for NVIDIA's management library, for tests. It holds no GPU: a scenario file, named by the environment
 * variable FAKE_NVML_SCENARIO and read again at each nvmlInit, says what each call answers.
 *
 * The file has a line "key value" each. "gpu" begins a GPU; what stands before the first one is the machine's:
 *
 *   fail CALL CODE       the call answers CODE; in a GPU's part, for that GPU only
 *   hang CALL            the call never returns; likewise
 *   pci TEXT, uuid TEXT, name TEXT
 *   pids 12,34           processes on the GPU
 *   field.ID[.SCOPE] N   a value of nvmlDeviceGetFieldValues; scope 0 is left out
 *   link.N 0|1           the state of an NVLink
 *   KEY N                any other number; a key that is not there makes its call answer "not supported"
 *
 * Built with -DOLD_DRIVER it lacks the calls that came with driver 510 and later.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7,
    VERSION_MISMATCH = 25, UNKNOWN = 999,
};
enum { PARTS_MAX = 17, LINES_MAX = 512, LINE_MAX_CHARS = 160 };

/* A part of the file: the machine, or one GPU. Handles are pointers to parts. */
typedef struct {
    int count;
    char lines[LINES_MAX][LINE_MAX_CHARS];
} Part;

static Part parts[PARTS_MAX];
static int gpus = -1;

static const char *text(const Part *part, const char *key)
{
    size_t length = strlen(key);
    for (int i = 0; i < part->count; i++)
        if (!strncmp(part->lines[i], key, length) && part->lines[i][length] == ' ')
            return part->lines[i] + length + 1;
    return NULL;
}

static int number(const Part *part, const char *key, int64_t *value)
{
    const char *found = text(part, key);
    if (found)
        *value = strtoll(found, NULL, 0);
    return found != NULL;
}

/* Do what one part of the scenario orders for a call: hang for ever, or return the code that it answers. */
static int ordered_by(const Part *part, const char *call)
{
    char key[LINE_MAX_CHARS];
    const char *hanging = text(part, "hang");
    int64_t code;
    while (hanging && !strcmp(hanging, call))
        pause();
    snprintf(key, sizeof key, "fail %s", call);
    return number(part, key, &code) ? (int)code : SUCCESS;
}

static int ordered(const Part *part, const char *call)
{
    int code = ordered_by(parts, call);
    return code != SUCCESS || part == parts ? code : ordered_by(part, call);
}

static int read_scenario(void)
{
    char line[LINE_MAX_CHARS];
    const char *path = getenv("FAKE_NVML_SCENARIO");
    FILE *file = path ? fopen(path, "r") : NULL;
    Part *part = parts;
    memset(parts, 0, sizeof parts);
    gpus = 0;
    if (!file)
        return UNKNOWN;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "gpu") && gpus + 1 < PARTS_MAX)
            part = &parts[++gpus];
        else if (part->count < LINES_MAX)
            strcpy(part->lines[part->count++], line);
    }
    fclose(file);
    return SUCCESS;
}

#define OBEY(part, call)                                       \
    do {                                                       \
        int code_;                                             \
        if (gpus < 0)                                          \
            return UNINITIALIZED;                              \
        if ((code_ = ordered(part, call)) != SUCCESS)          \
            return code_;                                      \
    } while (0)

/* A call that answers one number of a GPU. */
#define NUMBER(call, type, key)                                \
    int call(const Part *gpu, type *value)                     \
    {                                                          \
        int64_t found;                                         \
        OBEY(gpu, #call);                                      \
        if (!number(gpu, key, &found))                         \
            return NOT_SUPPORTED;                              \
        *value = (type)found;                                  \
        return SUCCESS;                                        \
    }

/* A call that answers two numbers of a GPU, or none. */
#define PAIR(call, first_key, second_key)                      \
    int call(const Part *gpu, unsigned *first, unsigned *second) \
    {                                                          \
        int64_t one, other;                                    \
        OBEY(gpu, #call);                                      \
        if (!number(gpu, first_key, &one) || !number(gpu, second_key, &other)) \
            return NOT_SUPPORTED;                              \
        *first = (unsigned)one;                                \
        *second = (unsigned)other;                             \
        return SUCCESS;                                        \
    }

/* A call that answers a number that depends on an argument: the key ends in it. */
#define NUMBER_OF(call, type, prefix)                          \
    int call(const Part *gpu, unsigned which, type *value)     \
    {                                                          \
        char key[LINE_MAX_CHARS];                              \
        int64_t found;                                         \
        OBEY(gpu, #call);                                      \
        snprintf(key, sizeof key, prefix "%u", which);         \
        if (!number(gpu, key, &found))                         \
            return NOT_SUPPORTED;                              \
        *value = (type)found;                                  \
        return SUCCESS;                                        \
    }

int nvmlInitWithFlags(unsigned flags)
{
    int code = read_scenario();
    (void)flags;
    return code == SUCCESS ? ordered(parts, "nvmlInit") : code;
}

int nvmlShutdown(void)
{
    OBEY(parts, "nvmlShutdown");
    gpus = -1;
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    (void)code;
    return "an error of the fake NVML";
}

static int copy(const Part *part, const char *key, char *to, unsigned size)
{
    const char *found = text(part, key);
    if (!found)
        return NOT_SUPPORTED;
    snprintf(to, size, "%s", found);
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    OBEY(parts, "nvmlDeviceGetCount_v2");
    *count = (unsigned)gpus;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, const Part **handle)
{
    if (gpus < 0)
        return UNINITIALIZED;
    if (index >= (unsigned)gpus)
        return INVALID_ARGUMENT;
    OBEY(&parts[index + 1], "nvmlDeviceGetHandleByIndex_v2");
    *handle = &parts[index + 1];
    return SUCCESS;
}

typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} PciInfo;

int nvmlDeviceGetPciInfo_v3(const Part *gpu, PciInfo *pci)
{
    OBEY(gpu, "nvmlDeviceGetPciInfo_v3");
    memset(pci, 0, sizeof *pci);
    return copy(gpu, "pci", pci->bus_id, sizeof pci->bus_id);
}

int nvmlDeviceGetUUID(const Part *gpu, char *uuid, unsigned size)
{
    OBEY(gpu, "nvmlDeviceGetUUID");
    return copy(gpu, "uuid", uuid, size);
}

int nvmlDeviceGetName(const Part *gpu, char *name, unsigned size)
{
    OBEY(gpu, "nvmlDeviceGetName");
    return copy(gpu, "name", name, size);
}

int nvmlDeviceGetTotalEccErrors(const Part *gpu, unsigned is_uncorrected, unsigned is_aggregate, uint64_t *count)
{
    int64_t found;
    OBEY(gpu, "nvmlDeviceGetTotalEccErrors");
    if (is_aggregate || !number(gpu, is_uncorrected ? "ecc_uncorrected" : "ecc_corrected", &found))
        return NOT_SUPPORTED;
    *count = (uint64_t)found;
    return SUCCESS;
}

NUMBER_OF(nvmlDeviceGetTemperature, unsigned, "temperature.")
NUMBER_OF(nvmlDeviceGetTemperatureThreshold, unsigned, "threshold.")
NUMBER_OF(nvmlDeviceGetClockInfo, unsigned, "clock.")
NUMBER_OF(nvmlDeviceGetMaxClockInfo, unsigned, "max_clock.")
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, uint64_t, "clock_reasons")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pcie_width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "pcie_max_width")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "pcie_generation")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "pcie_max_generation")
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "pcie_replays")
NUMBER(nvmlDeviceGetPersistenceMode, unsigned, "persistence")
PAIR(nvmlDeviceGetMigMode, "mig", "mig_pending")
PAIR(nvmlDeviceGetEccMode, "ecc_mode", "ecc_mode_pending")

int nvmlDeviceGetUtilizationRates(const Part *gpu, unsigned rates[2])
{
    int64_t busy;
    OBEY(gpu, "nvmlDeviceGetUtilizationRates");
    if (!number(gpu, "busy_percent", &busy))
        return NOT_SUPPORTED;
    rates[0] = rates[1] = (unsigned)busy;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(const Part *gpu, unsigned link, unsigned *is_up)
{
    char key[LINE_MAX_CHARS];
    int64_t found;
    OBEY(gpu, "nvmlDeviceGetNvLinkState");
    snprintf(key, sizeof key, "link.%u", link);
    if (number(gpu, key, &found)) {
        *is_up = (unsigned)found;
        return SUCCESS;
    }
    return number(gpu, "link.0", &found) ? INVALID_ARGUMENT : NOT_SUPPORTED;
}

int nvmlDeviceGetRemappedRows(const Part *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed)
{
    int64_t found;
    OBEY(gpu, "nvmlDeviceGetRemappedRows");
    if (!number(gpu, "rows_pending", &found))
        return NOT_SUPPORTED;
    *pending = (unsigned)found;
    *failed = number(gpu, "rows_failed", &found) ? (unsigned)found : 0;
    *corrected = number(gpu, "rows_corrected", &found) ? (unsigned)found : 0;
    *uncorrected = number(gpu, "rows_uncorrected", &found) ? (unsigned)found : 0;
    return SUCCESS;
}

typedef struct {
    uint64_t total, free, used;
} Memory;

int nvmlDeviceGetMemoryInfo(const Part *gpu, Memory *memory)
{
    int64_t used;
    OBEY(gpu, "nvmlDeviceGetMemoryInfo");
    if (!number(gpu, "memory_mb", &used))
        return NOT_SUPPORTED;
    memory->total = (uint64_t)80 << 30;
    memory->used = (uint64_t)used << 20;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

typedef struct {
    unsigned pid;
    uint64_t used;
    unsigned instance, compute_instance;
} Process;

static int processes_of(const Part *gpu, unsigned *count, Process *processes)
{
    const char *next = text(gpu, "pids");
    unsigned room = processes ? *count : 0, found = 0;
    while (next && *next) {
        char *end;
        unsigned pid = (unsigned)strtoul(next, &end, 10);
        if (found < room)
            processes[found] = (Process){pid, (uint64_t)512 << 20, ~0u, ~0u};
        found++;
        next = *end == ',' ? end + 1 : NULL;
    }
    *count = found;
    return found <= room ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetComputeRunningProcesses_v2(const Part *gpu, unsigned *count, Process *processes)
{
    OBEY(gpu, "nvmlDeviceGetComputeRunningProcesses_v2");
    return processes_of(gpu, count, processes);
}

#ifndef OLD_DRIVER

int nvmlDeviceGetComputeRunningProcesses_v3(const Part *gpu, unsigned *count, Process *processes)
{
    OBEY(gpu, "nvmlDeviceGetComputeRunningProcesses_v3");
    return processes_of(gpu, count, processes);
}

NUMBER(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, "clock_reasons")

typedef struct {
    unsigned version;
    uint64_t total, reserved, free, used;
} MemoryV2;

int nvmlDeviceGetMemoryInfo_v2(const Part *gpu, MemoryV2 *memory)
{
    int64_t used;
    OBEY(gpu, "nvmlDeviceGetMemoryInfo_v2");
    if (memory->version != (2u << 24 | sizeof *memory))
        return VERSION_MISMATCH;
    if (!number(gpu, "memory_mb", &used))
        return NOT_SUPPORTED;
    memory->total = (uint64_t)80 << 30;
    memory->reserved = (uint64_t)600 << 20;
    memory->used = (uint64_t)used << 20;
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

typedef struct {
    unsigned version;
    uint64_t counts[11];
    unsigned exceeded;
} SramStatus;

int nvmlDeviceGetSramEccErrorStatus(const Part *gpu, SramStatus *status)
{
    int64_t exceeded;
    OBEY(gpu, "nvmlDeviceGetSramEccErrorStatus");
    if (status->version != (1u << 24 | sizeof *status))
        return VERSION_MISMATCH;
    if (!number(gpu, "sram_exceeded", &exceeded))
        return NOT_SUPPORTED;
    status->exceeded = (unsigned)exceeded;
    return SUCCESS;
}

typedef struct {
    unsigned version;
    int margin;
} Margin;

int nvmlDeviceGetMarginTemperature(const Part *gpu, Margin *margin)
{
    int64_t found;
    OBEY(gpu, "nvmlDeviceGetMarginTemperature");
    if (!number(gpu, "left", &found))
        return NOT_SUPPORTED;
    margin->margin = (int)found;
    return SUCCESS;
}

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    unsigned status, clique, state, health;
} FabricInfo;

int nvmlDeviceGetGpuFabricInfoV(const Part *gpu, FabricInfo *fabric)
{
    int64_t state, status = 0, health = 0;
    OBEY(gpu, "nvmlDeviceGetGpuFabricInfoV");
    if (fabric->version != (2u << 24 | sizeof *fabric))
        return VERSION_MISMATCH;
    if (!number(gpu, "fabric_state", &state))
        return NOT_SUPPORTED;
    number(gpu, "fabric_status", &status);
    number(gpu, "fabric_health", &health);
    fabric->state = (unsigned)state;
    fabric->status = (unsigned)status;
    fabric->health = (unsigned)health;
    return SUCCESS;
}

typedef struct {
    uint32_t field, scope;
    int64_t at, latency;
    unsigned type;
    int code;
    union {
        double real;
        unsigned whole;
        uint64_t large;
        int64_t value;
    } value;
} FieldValue;

int nvmlDeviceGetFieldValues(const Part *gpu, int count, FieldValue *fields)
{
    char key[LINE_MAX_CHARS];
    int64_t found;
    OBEY(gpu, "nvmlDeviceGetFieldValues");
    for (FieldValue *each = fields; each < fields + count; each++) {
        snprintf(key, sizeof key, each->scope ? "field.%u.%u" : "field.%u", each->field, each->scope);
        each->code = number(gpu, key, &found) ? SUCCESS : NOT_SUPPORTED;
        each->type = 1; /* an unsigned int, as the driver says for most fields, */
        each->value.large = 0;
        if (each->code == SUCCESS && found > INT32_MAX)
            each->type = 3; /* or an unsigned long long */
        if (each->code == SUCCESS)
            each->value.large = (uint64_t)found;
    }
    return SUCCESS;
}

#endif
