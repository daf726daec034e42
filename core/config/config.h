/* SPDX-License-Identifier: MIT */
/*
 * Configuration: layers of settings read into one immutable snapshot.
 *
 * layer     one source of settings, weakest first: built-in, the defaults of HAMi mode
 *           (libvgpu.so), /etc/spillway/spillway.ini, the file in SPILLWAY_CONFIG, environment,
 *           settings of a HAMi monitor, the job's override file in the state directory
 * snapshot  struct config: all layers resolved. It is reference-counted and never changed once made
 * selector  the text after "gpu" in a section name: nothing (every GPU), an ordinal, a UUID (or
 *           an unambiguous beginning of one, as CUDA_VISIBLE_DEVICES allows), a PCI bus id
 * ceiling   [ceiling] in /etc: clamps the values of every other layer, with a warning
 * enforced  [ceiling] enforce = yes: the environment chooses no name, file or switch any more, and
 *           raises nothing. The layers above /etc can only ask for less. For example, with memory =
 *           8GiB in /etc SPILLWAY_MEMORY=4GiB holds and 16GiB does not
 *
 * A bad layer never takes effect in part: config_load() fails, names file, line, value and the
 * expected form, and the caller keeps the snapshot it has.
 *
 * A setting is resolved per device: the strongest layer that sets it wins; within a layer the more
 * specific selector wins (the longer UUID, PCI id, ordinal, none).
 *
 * A snapshot may be read by any number of threads. Everything returned as const char * lives as
 * long as it.
 */
#ifndef SPILLWAY_CONFIG_H
#define SPILLWAY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct deadline;

/* The cause of a change of an override file; zeros: not known. */
struct config_cause {
	unsigned int through; /* the command: enum cause_code of core/ledger/codes.h */
	unsigned int by;      /* the user's number + 1 */
};
extern struct config_cause config_cause; /* of the changes by this process */

#define CONFIG_SYSTEM_FILE "/etc/spillway/spillway.ini"
#define CONFIG_UNLIMITED   UINT64_MAX

enum {
	CONFIG_NAME_MAX = 64,
	CONFIG_LABELS_MAX = 256,
	CONFIG_MESSAGE_MAX = 512,
	CONFIG_USERS_MAX = 512,
	CONFIG_PATH_MAX = 4000,
	CONFIG_STATE_DIR_MAX = 401,
};

/*
 * How the machine's file may bind a key. A ceiling: [ceiling] may give the most of it; where the
 * file is enforced, the file's own value is the most, too, or else the built-in one. The machine's:
 * where the file is enforced no other layer sets it, because by it a job could take more than its
 * part, or keep it when its limit is lowered.
 */
enum config_bound { CONFIG_FREE, CONFIG_CEILING, CONFIG_MACHINES };

enum config_kind {
	CONFIG_SIZE_OR_PERCENT, /* of the device's memory; "unlimited" */
	CONFIG_SIZE,            /* "unlimited" too */
	CONFIG_PERCENT,
	CONFIG_CHOICE,
	CONFIG_COUNT,
	CONFIG_BOOL,
	CONFIG_DURATION,
};

enum config_spill { SPILL_AUTO, SPILL_VMM, SPILL_MANAGED, SPILL_PINNED, SPILL_OFF };
enum config_reported { REPORTED_AUTO, REPORTED_LIMIT, REPORTED_LIMIT_AND_HOST };
enum config_priority { PRIORITY_OPPORTUNISTIC, PRIORITY_NORMAL, PRIORITY_GUARANTEED };
enum config_turn { TURN_FINE, TURN_EXCLUSIVE };
enum config_policy { POLICY_CAP, POLICY_WEIGHT };
enum config_steps { STEPS_AUTO, STEPS_ON, STEPS_OFF };
enum config_shrink { SHRINK_FAST, SHRINK_GENTLE };
enum config_mixed { MIXED_AUTO, MIXED_WHOLE };
enum config_placement { PLACEMENT_AUTO, PLACEMENT_BALANCED, PLACEMENT_HEAT };
enum config_survey { CONFIG_SURVEY_AUTO, CONFIG_SURVEY_ALWAYS };

/*
 * Every key of [gpu], a row each: X(name, kind, built-in, choices, how the machine's file may bind
 * it, whether `run` and `set` have an option for it, meaning). The row makes the parser and its
 * messages, the variable of the environment, the ceiling, the option with its help and completion,
 * and doctor's line. The key's name is its only spelling: host_memory, SPILLWAY_HOST_MEMORY,
 * --host-memory. Besides the row a key needs its paragraphs in spillway.ini(5) and
 * conf/spillway.ini, and an option one in the commands' pages, which tests look for. All values are
 * held as uint64_t; percents in thousandths of a percent.
 */
#define CONFIG_GPU_KEYS(X)                                                                        \
	X(memory, CONFIG_SIZE_OR_PERCENT, "unlimited", "", CONFIG_CEILING, true,                  \
	  "Device memory the job may occupy on each GPU: 8GiB, 50%, unlimited")                   \
	X(memory_max, CONFIG_SIZE_OR_PERCENT, "0", "", CONFIG_CEILING, true,                      \
	  "How far that limit may rise by itself while the GPU has room; 0: not at all")          \
	X(host_memory, CONFIG_SIZE, "auto", "auto", CONFIG_CEILING, true,                         \
	  "Host memory for what does not fit: 64GiB, unlimited; auto: half of what is available") \
	X(share, CONFIG_PERCENT, "100", "", CONFIG_CEILING, true,                                 \
	  "Percent of GPU time; 0 pauses, 100 is unlimited")                                      \
	X(share_policy, CONFIG_CHOICE, "cap", "cap|weight", CONFIG_MACHINES, false,               \
	  "cap: never more than the share; weight: only while others want the device")            \
	X(share_window, CONFIG_DURATION, "100ms", "", CONFIG_MACHINES, false,                     \
	  "How much unused share may be saved up")                                                \
	X(priority, CONFIG_CHOICE, "normal", "opportunistic|normal|guaranteed", CONFIG_CEILING,   \
	  true, "guaranteed: never slowed for others; opportunistic: runs in time others leave")  \
	X(slowdown, CONFIG_PERCENT, "2", "", CONFIG_MACHINES, true,                               \
	  "How much slower a guaranteed job may become beside others")                            \
	X(turn, CONFIG_CHOICE, "fine", "fine|exclusive", CONFIG_CEILING, true,                    \
	  "exclusive: the job has its GPUs to itself, or none, in turns of turn_length")          \
	X(turn_length, CONFIG_DURATION, "30s", "", CONFIG_CEILING, true,                          \
	  "How long such a turn is")                                                              \
	X(idle_yield, CONFIG_DURATION, "30s", "never", CONFIG_CEILING, true,                      \
	  "How long the job is idle before others may have its memory's place; or never")         \
	X(steps, CONFIG_CHOICE, "auto", "auto|on|off", CONFIG_FREE, false,                        \
	  "Look for steps in the launches; auto: where they are paced or the limit can rise")     \
	X(spill, CONFIG_CHOICE, "auto", "auto|vmm|managed|pinned|off", CONFIG_MACHINES, false,    \
	  "How memory is held on the host")                                                       \
	X(spill_after, CONFIG_COUNT, "auto", "auto", CONFIG_FREE, false,                          \
	  "Out-of-memory answers before spilling; auto: two for a program that frees its cache")  \
	X(reported_memory, CONFIG_CHOICE, "auto", "auto|limit|limit+host", CONFIG_FREE, true,     \
	  "What the program is told a GPU has")                                                   \
	X(mixed, CONFIG_CHOICE, "auto", "auto|whole", CONFIG_FREE, false,                         \
	  "auto: an allocation may be partly on the host; whole: it is all on one tier")          \
	X(placement, CONFIG_CHOICE, "auto", "auto|balanced|heat", CONFIG_FREE, true,              \
	  "What is on the host: what costs kernels least, or what they used least lately")        \
	X(survey, CONFIG_CHOICE, "auto", "auto|always", CONFIG_FREE, false,                       \
	  "When steps are measured: where memory is on the host, or always, for what-if")         \
	X(demote_deadline, CONFIG_DURATION, "100ms", "", CONFIG_MACHINES, false,                  \
	  "How long a changed limit waits for a good moment to move memory")                      \
	X(shrink, CONFIG_CHOICE, "fast", "fast|gentle", CONFIG_FREE, true,                        \
	  "How live memory moves; gentle: the program works most of the time meanwhile")          \
	X(deferred_free, CONFIG_BOOL, "no", "", CONFIG_FREE, false,                               \
	  "yes: freeing returns at once, and the memory is used again when earlier work is done") \
	X(pin_new, CONFIG_BOOL, "auto", "auto", CONFIG_MACHINES, false,                           \
	  "yes: what is allocated from now on never moves; auto: what a network may reach")       \
	X(evict, CONFIG_BOOL, "no", "", CONFIG_FREE, false,                                       \
	  "yes: all that can move is on the host; what pause --evict writes")

/*
 * The keys of modules, in each section: X(key, module). A process without the module takes such
 * a key for an error that says so.
 */
#define CONFIG_MODULE_KEYS(X)       \
	X("idle_yield", "sharing")  \
	X("placement", "placement") \
	X("region", "vgpu")         \
	X("reserve", "limits")      \
	X("steps", "steps")         \
	X("survey", "placement")    \
	X("turn", "sharing")        \
	X("turn_length", "sharing")

/* Returns whether a module is built in. NULL, as in the tool: each counts as built in. */
extern bool (*config_has_module)(const char *module);
bool config_lacks_module(const char *module);

/*
 * Other spellings of these keys that are taken in INI files, options and the environment alike:
 * X(key, spelling, version). Jobs with a segment of at most this version know no other; 0: there
 * are none.
 */
#define CONFIG_OLD_SPELLINGS(X)              \
	X(memory, "memory_limit", 7)         \
	X(memory_max, "memory_limit_max", 7) \
	X(host_memory, "host_limit", 7)      \
	X(reported_memory, "reported", 0)    \
	X(memory, "request", 0)              \
	X(memory_max, "limit", 0)

/* turn = whole is the earlier spelling of turn = exclusive. Jobs as above know no other. */
#define CONFIG_OLD_EXCLUSIVE "whole"
enum { CONFIG_OLD_EXCLUSIVE_VERSION = 7 };

#define X(...) +1
enum { CONFIG_OLD_SPELLING_COUNT = 0 CONFIG_OLD_SPELLINGS(X) };
#undef X

enum config_key {
#define X(name, ...) CONFIG_KEY_##name,
	CONFIG_GPU_KEYS(X)
#undef X
	    CONFIG_KEY_COUNT
};

/*
 * The settings of one device, by name or by key. host_memory is CONFIG_AUTO when left to the
 * default and no ceiling binds it; so are spill_after and pin_new where they are "auto". idle_yield
 * is CONFIG_NEVER where it is "never", the default of a guaranteed job. memory_max is at least the
 * setting memory, or 0 where it is not set or unlimited. Where memory_max alone is set, it is
 * memory, too: as in Kubernetes, a limit without a request is both.
 */
#define CONFIG_AUTO  (UINT64_MAX - 1)
#define CONFIG_NEVER UINT64_MAX
struct config_gpu {
	union {
		struct {
#define X(name, ...) uint64_t name;
			CONFIG_GPU_KEYS(X)
#undef X
		};
		uint64_t of[CONFIG_KEY_COUNT];
	};
	/*
	 * host_memory, for allocations and for memory that leaves the device. The latter is at
	 * least the job's value in an enforced file: with less, a lowered limit would not hold.
	 */
	uint64_t host_limit_of_moves;
	/* 1: the number before it is bound by auto, too */
	uint64_t host_at_most_auto, moves_at_most_auto;
};

/* One device as the process sees it. Any field but ordinal may be empty. */
struct config_device {
	int ordinal;         /* after CUDA_VISIBLE_DEVICES */
	char uuid[64];       /* "GPU-xxxxxxxx-xxxx-..." or "MIG-..." */
	char pci_bus_id[32]; /* "0000:3b:00.0" */
	uint64_t memory;     /* bytes, for percentages; 0: unknown, percentages stay unlimited */
};

/* A job's pause, from the file that `spillway pause` writes (override.c). */
enum { CONFIG_BOOT_ID_MAX = 40 };
struct config_pause {
	bool is_on;
	bool evict;
	char by[32];                      /* the user, "" where unknown */
	uint64_t since_ns;                /* CLOCK_REALTIME; 0: not known */
	uint64_t at_ns;                   /* CLOCK_MONOTONIC of that boot; 0: not known */
	char boot_id[CONFIG_BOOT_ID_MAX]; /* "": not known */
	uint64_t hash;                    /* of the file's bytes; 0: there is no such file */
};

/* A limit of a GPU's memory that something else enforces, as a cgroup. */
struct config_limit {
	char pci[32];
	uint64_t hard, soft; /* bytes; UINT64_MAX and 0: none */
	const char *hard_from, *soft_from;
};

struct config_sources {
	const char *system_file;   /* NULL: none. Missing is fine. */
	const char *file;          /* SPILLWAY_CONFIG; NULL: none. Missing is an error. */
	const char *override_file; /* NULL: none. Missing is fine. */
	char *const *environment;  /* like environ; NULL: none */
	/* The process is one in which we stand in for HAMi-core (core/modules/vgpu/hami_mode.h). */
	bool stands_in;
	const char *monitor;      /* NULL: none. INI text: the settings of the node's monitor */
	const char *monitor_from; /* where that was read */
	/*
	 * HAMi's default policy, a share that holds while other jobs want the GPU, needs no cap:
	 * other jobs are seen, or the monitor says that there are none.
	 */
	bool is_weighed;
	const struct config_pause *pause; /* NULL: none */
	/* They bind memory, to the soft limit if there is one, and memory_max to the hard one. */
	const struct config_limit *limits;
	size_t limit_count;
	/*
	 * NULL: a bad layer fails the whole configuration. Otherwise the text of last_good (NULL:
	 * nothing) replaces the bad layer, and *complaint describes its error; the message is ""
	 * without one. The devices are those that selectors may name.
	 */
	struct config_error *complaint;
	const struct config *last_good;
	const struct config_device *devices;
	size_t device_count;
};

struct config_error {
	char file[256]; /* or the name of the environment variable */
	int line;       /* 0: does not apply */
	/* The whole line for people: file, line, value, the expected form. */
	char message[CONFIG_MESSAGE_MAX];
};

struct config;

/*
 * Reads all layers. 0 and a snapshot with one reference, or a negative errno and *error filled
 * (-EINVAL: content; else the system's reason). *config is untouched on failure.
 */
int config_load(const struct config_sources *sources, struct config **config,
                struct config_error *error);
void config_release(struct config *config); /* NULL is fine */

/* The part of a snapshot that concerns no device. */
struct config_job {
	bool is_set;                    /* a file, a setting or a name came from anywhere */
	bool is_disabled;               /* SPILLWAY_DISABLE, CUDA_DISABLE_CONTROL */
	bool enforces;                  /* the system file is enforced */
	char name[CONFIG_NAME_MAX];     /* "": no name */
	char labels[CONFIG_LABELS_MAX]; /* "key=value,..." or "" */
	bool nvml;                      /* NVML's memory queries show the job's limit */
	const char *nvml_origin;        /* where that comes from */
	char *status_file;              /* where the job writes its status; NULL: nowhere */
	/* as which version, 1.x, HAMi's shared region is to be written; negative: it is not */
	int region_minor;
	/* of the override file's bytes as read, refused or not, and of the pause; 0: neither */
	uint64_t override_hash;
	struct config_cause cause; /* of the last change of the override file */
	bool override_is_refused;  /* the override file as it stands is bad, and so not in force */
	bool has_override;         /* one is in force, be it an earlier one */
	const char *warnings; /* for stat (clamped by a ceiling, ...), one per line; "": none */
};

const struct config_job *config_job(const struct config *config);

/*
 * Reads a job's pause. An existing file pauses the job, even with a damaged text: fields that
 * cannot be read stay empty. A pause of another boot than boot_id ("": not known) has no effect.
 */
void config_pause_read(const char *path, const char *boot_id, struct config_pause *pause);
/* Writes a pause; is_on and hash are not read. Returns 0 or a negative errno. */
int config_pause_write(const char *path, const struct config_pause *pause);
/* Returns the bytes of a device that the machine's file keeps free of Spillway's jobs. */
uint64_t config_reserve(const struct config *config, const struct config_device *device);

/* The rules of the machine's file, CONFIG_SYSTEM_FILE, about itself. */
struct config_machine {
	bool enforces; /* the environment is not to be followed further than it may lead */
	bool requires; /* a process that cannot be limited is refused */
	char state_dir[CONFIG_STATE_DIR_MAX]; /* where jobs keep their state; "": the usual place */
	char guaranteed[CONFIG_USERS_MAX];    /* users whose jobs may be; "": all users' */
	/*
	 * Why the file cannot be relied on, so that a process limited by it is refused; "": it can.
	 */
	char fault[CONFIG_MESSAGE_MAX];
};

/*
 * Reads that once in a process, before any change of the file counts; before a driver is chosen, a
 * directory is opened or a job is named. Where the file is enforced the variables that choose
 * places are none any more (core/base/place.h).
 */
const struct config_machine *config_machine(void);
/* Returns whether jobs of this user may be guaranteed. Once that was read, any thread. */
bool config_may_be_guaranteed(uid_t user);

/*
 * Returns a number for all limits on memory that are set, of the device and of the host. It is the
 * same however they are spelled and whichever layer they come from. For example, 1GiB in a file and
 * 1024MiB in the environment make the same number. 0: none is set.
 */
uint64_t config_limits(const struct config *config);

/*
 * Checks the selectors against the devices. Returns 0, or -EINVAL with *error filled when the
 * beginning of a UUID names several of them.
 */
int config_check_devices(const struct config *config, const struct config_device *devices,
                         size_t count, struct config_error *error);

/*
 * Returns whether a section of this name, [gpu:NAME], would be about the device: by ordinal, UUID
 * or its beginning, or PCI bus id. For example, "0", "GPU-8f3a" and "0000:3b:00.0" may all select
 * one device.
 */
bool config_selects(const char *name, const struct config_device *device);
void config_for_device(const struct config *config, const struct config_device *device,
                       struct config_gpu *settings);

/* Returns a variable's value of an environment (NULL: none); NULL where it is missing or empty. */
const char *config_variable(char *const *environment, const char *name);
/*
 * Tells where the effective value of one key comes from: "built-in", "FILE:LINE", "environment
 * NAME".
 */
const char *config_origin(const struct config *config, const struct config_device *device,
                          enum config_key key);

/* Returns the value as it is written there, "50%"; NULL for built-in. */
const char *config_written(const struct config *config, const struct config_device *device,
                           enum config_key key);

/* Writes the value as it would stand in an INI file. Returns buf. */
const char *config_format(enum config_key key, uint64_t value, char *buf, size_t size);
const char *config_key_name(enum config_key key);
/* Returns the key of that name or of an old spelling; CONFIG_KEY_COUNT: there is none. */
enum config_key config_find_key(const char *name);
/* Returns the old spelling of that index, NULL behind the last, and its key. */
const char *config_old_spelling(int index, enum config_key *key);
/* Returns the spelling that processes with a segment of this version know. */
const char *config_key_name_for(enum config_key key, uint32_t version);
/* Returns the same for a value of the key: text, or its earlier spelling. */
const char *config_value_for(enum config_key key, const char *text, uint32_t version);
/* The forms that a spelling takes: host_memory is --host-memory and SPILLWAY_HOST_MEMORY. */
enum { CONFIG_SPELLING_MAX = 40 };
char *config_as_option(const char *spelling, char option[CONFIG_SPELLING_MAX]);
char *config_as_variable(const char *spelling, char variable[CONFIG_SPELLING_MAX]);
/* Writes the form of the key's value, as help has it: "SIZE", "auto|whole". Returns buf. */
const char *config_key_argument(enum config_key key, char *buf, size_t size);
/*
 * Checks whether an INI may give the key this value. Returns 0, or -EINVAL with "expected ..." in
 * message.
 */
int config_check_value(enum config_key key, const char *text, char *message, size_t size);
/* Returns whether both texts are values of the key and mean the same: 24M and 24MiB. */
bool config_is_same_value(enum config_key key, const char *one, const char *other);
/*
 * Checks whether text may stand after "gpu" in a section's name and, unless device is NULL, names
 * it. Returns 0, -EINVAL (no selector) or -ENODEV (another device).
 */
int config_check_selector(const char *text, const struct config_device *device);

/*
 * Merges settings into an override file by writing a new one and renaming it over the old: keys
 * NULL-terminated; values[i] NULL removes the key. selector "" is every GPU. Locks against other
 * writers (flock on "PATH.lock"), and waits for them until the deadline. 0 or a negative errno with
 * *error filled; the old file stands then. The file is 0600 and made of the same sections as any
 * INI; comments in it are not kept.
 */
int config_override_write(const char *path, const char *selector, const char *const *keys,
                          const char *const *values, struct deadline *deadline,
                          struct config_error *error);

/* A change of an override file that can be taken back. */
struct config_change {
	const char *path, *selector;
	const char *const *keys, *const *values; /* as config_override_write() has them */
	const struct config_device *devices;     /* that selectors may name; NULL: not known */
	size_t device_count;
	/* Filled by the change. */
	char *before; /* the earlier text of the file; NULL: there was none. The caller frees it */
	size_t before_length;
	uint64_t hash; /* of the text that stands there since */
};
/* Writes a change as config_override_write() does. */
int config_override_change(struct config_change *change, struct deadline *deadline,
                           struct config_error *error);
/*
 * Puts the earlier text of the file back, byte for byte, unless another process has changed it
 * since (-EBUSY). Returns as config_override_write().
 */
int config_override_take_back(const struct config_change *change, struct deadline *deadline,
                              struct config_error *error);
/*
 * Makes comments of the lines of an override file that processes of a version refuse, because they
 * are wrong or of a later key. Returns how many they are, *error filled of the first, or a negative
 * number with *error filled.
 */
int config_override_mend(const char *path, uint32_t version, struct deadline *deadline,
                         struct config_error *error);
/*
 * Returns the first version of the segment with processes that know the key; those of an earlier
 * one refuse a file in which it stands.
 */
uint32_t config_key_since(enum config_key key);

#endif
