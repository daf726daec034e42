/* SPDX-License-Identifier: MIT */
/*
 * Configuration: settings of files and environment, the settings of a device, and refused values.
 */
#include "core/config/snapshot.h"

#include "core/base/hash.h"

#include "tests/unit/scratch.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define GIB          (UINT64_C(1) << 30)
#define MIB          (UINT64_C(1) << 20)
#define ENVIRON(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})

static const struct config_device gpu0 = {0, "GPU-5ac31234-aaaa-bbbb-cccc-0123456789ab",
                                          "0000:3B:00.0", 16 * GIB};
static const struct config_device gpu1 = {1, "MIG-77777777-aaaa-bbbb-cccc-0123456789ab",
                                          "0000:af:00.0", 40 * GIB};

static struct config_error error;

static struct config *load(struct config_sources sources)
{
	struct config *config = NULL;
	int status = config_load(&sources, &config, &error);

	ck_assert_msg(status == 0, "%s", error.message);
	return config;
}

static struct config *load_text(const char *text)
{
	return load((struct config_sources){.file = scratch_write("job.ini", text)});
}

static struct config *load_environment(char *const *environment)
{
	return load((struct config_sources){.environment = environment});
}

static struct config_gpu settings_of(const struct config *config, struct config_device device)
{
	struct config_gpu settings;

	config_for_device(config, &device, &settings);
	return settings;
}

/* The message without the scratch folder: "job.ini:2: ...". */
static const char *refused(struct config_sources sources, int expected)
{
	struct config *config = (struct config *)&error;
	const char *folder;

	memset(&error, 0, sizeof(error));
	ck_assert_int_eq(config_load(&sources, &config, &error), expected);
	ck_assert_ptr_eq(config, &error); /* untouched */
	folder = strstr(error.message, scratch_folder);
	return folder ? folder + strlen(scratch_folder) + 1 : error.message;
}

static const char *refused_bytes(const void *bytes, size_t length)
{
	struct config_sources sources = {.file = scratch_write_bytes("job.ini", bytes, length)};

	return refused(sources, -EINVAL);
}

static const char *refused_text(const char *text)
{
	return refused_bytes(text, strlen(text));
}

#define ck_assert_begins(text, beginning)                                                      \
	do {                                                                                   \
		const char *whole = (text);                                                    \
		ck_assert_msg(strncmp(whole, beginning, strlen(beginning)) == 0, "%s", whole); \
	} while (0)

/* Layers and devices. */

START_TEST(nothing)
{
	struct config *config = load((struct config_sources){0});
	struct config_gpu settings = settings_of(config, gpu0);

	ck_assert(!config_job(config)->is_set);
	ck_assert(!config_job(config)->is_disabled);
	ck_assert_str_eq(config_job(config)->name, "");
	ck_assert_str_eq(config_job(config)->labels, "");
	ck_assert(config_job(config)->nvml);
	ck_assert_str_eq(config_job(config)->nvml_origin, "built-in");
	ck_assert_str_eq(config_job(config)->warnings, "");
	ck_assert_uint_eq(config_job(config)->override_hash, 0);
	ck_assert_uint_eq(settings.memory, CONFIG_UNLIMITED);
	ck_assert_uint_eq(settings.memory_max, 0);
	ck_assert_uint_eq(settings.host_memory, CONFIG_AUTO);
	ck_assert_uint_eq(settings.share, 100000);
	ck_assert_uint_eq(settings.share_policy, POLICY_CAP);
	ck_assert_uint_eq(settings.share_window, 100000000);
	ck_assert_uint_eq(settings.priority, PRIORITY_NORMAL);
	ck_assert_uint_eq(settings.slowdown, 2000);
	ck_assert_uint_eq(settings.turn, TURN_FINE);
	ck_assert_uint_eq(settings.turn_length, 30000000000);
	ck_assert_uint_eq(settings.idle_yield, 30000000000);
	ck_assert_uint_eq(settings.steps, STEPS_AUTO);
	ck_assert_uint_eq(settings.spill, SPILL_AUTO);
	ck_assert_uint_eq(settings.spill_after, CONFIG_AUTO);
	ck_assert_uint_eq(settings.reported_memory, REPORTED_AUTO);
	ck_assert_uint_eq(settings.mixed, MIXED_AUTO);
	ck_assert_uint_eq(settings.placement, PLACEMENT_AUTO);
	ck_assert_uint_eq(settings.demote_deadline, 100000000);
	ck_assert_uint_eq(settings.shrink, SHRINK_FAST);
	ck_assert_uint_eq(settings.deferred_free, false);
	ck_assert_uint_eq(settings.pin_new, CONFIG_AUTO);
	ck_assert_str_eq(config_origin(config, &gpu0, CONFIG_KEY_share), "built-in");
	config_release(config);
	config_release(NULL);
}
END_TEST

START_TEST(every_key)
{
	struct config *config = load_text("[job]\n"
	                                  "name = bert-finetune ; the big one\n"
	                                  "labels = team=vision,user=ada\n"
	                                  "[gpu]\n"
	                                  "# comment\n"
	                                  "  ; indented comment\n"
	                                  "\n"
	                                  "memory = 8GiB ; half\n"
	                                  "memory_max: 20GiB\n"
	                                  "host_memory=unlimited\n"
	                                  "share = 33.5\n"
	                                  "share_policy = weight\n"
	                                  "share_window = 250ms\n"
	                                  "priority = opportunistic\n"
	                                  "slowdown = 0.5%\n"
	                                  "turn = exclusive\n"
	                                  "turn_length = 2s\n"
	                                  "idle_yield = never\n"
	                                  "spill = managed\n"
	                                  "spill_after = 3\n"
	                                  "reported_memory = limit+host\n"
	                                  "mixed = whole\n"
	                                  "placement = balanced\n"
	                                  "demote_deadline = 2s\n"
	                                  "shrink = gentle\n"
	                                  "deferred_free = yes\n"
	                                  "pin_new = on");
	struct config_gpu settings = settings_of(config, gpu0);

	ck_assert(config_job(config)->is_set);
	ck_assert_str_eq(config_job(config)->name, "bert-finetune");
	ck_assert_str_eq(config_job(config)->labels, "team=vision,user=ada");
	ck_assert_uint_eq(settings.memory, 8 * GIB);
	ck_assert_uint_eq(settings.memory_max, 20 * GIB);
	ck_assert_uint_eq(settings.host_memory, CONFIG_UNLIMITED);
	ck_assert_uint_eq(settings.share, 33500);
	ck_assert_uint_eq(settings.share_policy, POLICY_WEIGHT);
	ck_assert_uint_eq(settings.share_window, 250000000);
	ck_assert_uint_eq(settings.priority, PRIORITY_OPPORTUNISTIC);
	ck_assert_uint_eq(settings.slowdown, 500);
	ck_assert_uint_eq(settings.turn, TURN_EXCLUSIVE);
	ck_assert_uint_eq(settings.turn_length, 2000000000);
	ck_assert_uint_eq(settings.idle_yield, CONFIG_NEVER);
	ck_assert_uint_eq(settings.spill, SPILL_MANAGED);
	ck_assert_uint_eq(settings.spill_after, 3);
	ck_assert_uint_eq(settings.reported_memory, REPORTED_LIMIT_AND_HOST);
	ck_assert_uint_eq(settings.mixed, MIXED_WHOLE);
	ck_assert_uint_eq(settings.placement, PLACEMENT_BALANCED);
	ck_assert_uint_eq(settings.demote_deadline, 2000000000);
	ck_assert_uint_eq(settings.shrink, SHRINK_GENTLE);
	ck_assert_uint_eq(settings.deferred_free, true);
	ck_assert_uint_eq(settings.pin_new, true);
	config_release(config);
}
END_TEST

START_TEST(set_by_a_file_alone)
{
	struct config *config = load_text("# nothing yet\n");

	ck_assert(config_job(config)->is_set);
	config_release(config);
}
END_TEST

START_TEST(percent_of_memory)
{
	struct config *config = load_text("[gpu]\nmemory = 50%\nmemory_max = 75 %\n");
	struct config_device unknown = {.ordinal = 0};
	struct config_device odd = {.memory = UINT64_MAX - 2};

	ck_assert_uint_eq(settings_of(config, gpu0).memory, 8 * GIB);
	ck_assert_uint_eq(settings_of(config, gpu0).memory_max, 12 * GIB);
	ck_assert_uint_eq(settings_of(config, gpu1).memory, 20 * GIB);
	ck_assert_uint_eq(settings_of(config, unknown).memory, CONFIG_UNLIMITED);
	ck_assert_uint_eq(settings_of(config, odd).memory, (UINT64_MAX - 2) / 2);
	config_release(config);
}
END_TEST

START_TEST(selectors)
{
	struct config *config = load_text("[gpu GPU-5AC3]\nmemory = 5G\n"
	                                  "[gpu GPU-5ac31234]\nspill_after = 5\n"
	                                  "[gpu 3b:00]\nmemory = 4G\nshare = 40\n"
	                                  "spill_after = 4\n"
	                                  "[gpu 0]\nmemory = 3G\nshare = 30\nspill = pinned\n"
	                                  "[gpu]\nmemory = 2G\nshare = 20\nspill = off\n"
	                                  "share_window = 2s\n"
	                                  "[gpu 00000000:AF:00.0]\nmemory = 6G\n"
	                                  "[gpu 17]\nshare = 17\n"
	                                  "[gpu GPU-5ac]\nmemory = 1G\n");
	struct config_gpu settings = settings_of(config, gpu0);
	const char *origin = config_origin(config, &gpu0, CONFIG_KEY_memory);

	ck_assert_uint_eq(settings.memory, 5 * GIB);
	ck_assert_uint_eq(settings.spill_after, 5);
	ck_assert_uint_eq(settings.share, 40000);
	ck_assert_uint_eq(settings.spill, SPILL_PINNED);
	ck_assert_uint_eq(settings.share_window, 2000000000);
	ck_assert_str_eq(strrchr(origin, '/'), "/job.ini:2");

	settings = settings_of(config, gpu1);
	ck_assert_uint_eq(settings.memory, 6 * GIB);
	ck_assert_uint_eq(settings.share, 20000);
	ck_assert_uint_eq(settings.spill, SPILL_OFF);
	config_release(config);

	config = load_text("[gpu MIG-GPU-5ac3/1/0]\nshare = 5\n[gpu MIG-5AC31234]\nmemory = 7G\n"
	                   "[gpu MIG-5ac4]\nshare = 6\n");
	settings = settings_of(config, gpu0);
	ck_assert_uint_eq(settings.memory, 7 * GIB);
	ck_assert_uint_eq(settings.share, 100000);
	config_release(config);
}
END_TEST

START_TEST(no_selectors)
{
	static const char *const bad[] = {
	    "GPU-",   "MIG-",        "abc",         "-1",   "00",      "0x1",
	    "3b:0",   "3b:00.",      "3b:00.00",    "3b00", "GPU-x",   "0 1",
	    "3b:00 ", "99999999999", "000:3b:00.0", "gpu0", "MIG-GPU-"};
	char text[128];

	for (size_t i = 0; i < COUNT(bad); i++) {
		snprintf(text, sizeof(text), "\n[gpu %s]\n", bad[i]);
		ck_assert_begins(refused_text(text), "job.ini:2: [gpu ");
		ck_assert_ptr_nonnull(strstr(error.message, "expected an ordinal"));
	}
}
END_TEST

START_TEST(selector_ends_where_it_ends)
{
	static const char text[] = "3b00\0"
	                           "3b:00"; /* no domain, then what must not be read */
	struct config_selector selector;

	ck_assert_int_eq(config_selector_parse(text, &selector), -EINVAL);
}
END_TEST

START_TEST(ambiguous_uuid)
{
	struct config *config = load_text("[gpu GPU-5ac3]\nshare = 1\n");
	struct config_device devices[] = {gpu0, gpu1, gpu0};

	ck_assert_int_eq(config_check_devices(config, devices, 2, &error), 0);
	strcpy(devices[2].uuid, "GPU-5ac39999-aaaa-bbbb-cccc-0123456789ab");
	ck_assert_int_eq(config_check_devices(config, devices, 3, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error.message, "job.ini:2: [gpu GPU-5ac3]: names both"));
	config_release(config);
}
END_TEST

START_TEST(layers)
{
	char *const *environment =
	    ENVIRON("SPILLWAY_MEMORY=4G", "SPILLWAY_MEMORY_1=3G", "SPILLWAY_JOB=from-environment",
	            "SPILLWAY_SPILL_AFTER=4", "SPILLWAY_SHARE=");
	struct config_sources sources = {
	    .system_file =
	        scratch_write("system.ini", "[job]\nname = from-system\nlabels = a=b\nnvml = yes\n"
	                                    "status_file = /of/the/system\n"
	                                    "[gpu]\nmemory = 1G\nshare = 10\nspill = off\n"
	                                    "spill_after = 1\nhost_memory = 1G\n"
	                                    "[gpu 0]\nhost_memory = 2G\n"),
	    .file = scratch_write("job.ini", "[job]\nname = from-file\nnvml = no\n"
	                                     "status_file = /of/the/job\n"
	                                     "[gpu]\nmemory = 2G\nshare = 20\n"
	                                     "spill_after = 2\nhost_memory = 3G\n"),
	    .environment = environment,
	    .override_file = scratch_write("override.ini", "[gpu]\nspill_after = 5\n"),
	};
	struct config *config = load(sources);
	struct config_gpu settings = settings_of(config, gpu0);

	ck_assert_str_eq(config_job(config)->name, "from-environment");
	ck_assert_str_eq(config_job(config)->labels, "a=b");
	ck_assert_str_eq(config_job(config)->status_file, "/of/the/job");
	ck_assert(!config_job(config)->nvml);
	ck_assert_ptr_nonnull(strstr(config_job(config)->nvml_origin, "job.ini:3"));
	ck_assert_uint_eq(settings.spill, SPILL_OFF);
	ck_assert_uint_eq(settings.share, 20000);
	ck_assert_uint_eq(settings.memory, 4 * GIB);
	ck_assert_uint_eq(settings.spill_after, 5);
	ck_assert_uint_eq(settings.host_memory, 3 * GIB); /* the layer goes before the selector */
	ck_assert_uint_eq(settings_of(config, gpu1).memory, 3 * GIB);
	ck_assert_str_eq(config_origin(config, &gpu1, CONFIG_KEY_memory),
	                 "environment SPILLWAY_MEMORY_1");
	ck_assert_uint_eq(config_job(config)->override_hash,
	                  hash_bytes(HASH_NOTHING, "[gpu]\nspill_after = 5\n", 22));
	config_release(config);
}
END_TEST

static uint64_t limits_of(struct config *config)
{
	uint64_t limits = config_limits(config);

	config_release(config);
	return limits;
}

#define LIMITS_OF(...) limits_of(load_environment(ENVIRON(__VA_ARGS__)))

/*
 * Who has the same limits has the same number, whoever set them and in whatever words; who has
 * others has another.
 */
START_TEST(limits_are_a_number)
{
	uint64_t forty = LIMITS_OF("SPILLWAY_MEMORY=40MiB");
	struct config_sources both = {.environment = ENVIRON("SPILLWAY_MEMORY_1=1GiB")};

	ck_assert_uint_eq(LIMITS_OF("A=b"), 0);
	ck_assert_uint_eq(LIMITS_OF("SPILLWAY_MEMORY=unlimited", "SPILLWAY_HOST_MEMORY=auto",
	                            "SPILLWAY_SHARE=50", "SPILLWAY_MEMORY_MAX=1GiB"),
	                  0);
	ck_assert_uint_eq(LIMITS_OF("SPILLWAY_HOST_MEMORY=unlimited", "CUDA_DEVICE_MEMORY_LIMIT=0"),
	                  0);
	ck_assert_uint_ne(forty, 0);
	ck_assert_uint_eq(LIMITS_OF("CUDA_DEVICE_MEMORY_LIMIT=40m", "SPILLWAY_SHARE=50"), forty);
	ck_assert_uint_eq(LIMITS_OF("SPILLWAY_MEMORY=40960K", "CUDA_DEVICE_MEMORY_LIMIT=80m"),
	                  forty);
	ck_assert_uint_eq(LIMITS_OF("SPILLWAY_MEMORY=40MiB", "SPILLWAY_MEMORY_0=40MiB"), forty);
	ck_assert_uint_eq(limits_of(load_text("[gpu]\nmemory = 40MiB\nspill = off\n")), forty);

	ck_assert_uint_ne(LIMITS_OF("SPILLWAY_MEMORY=41MiB"), forty);
	ck_assert_uint_ne(LIMITS_OF("SPILLWAY_MEMORY=40%"), forty);
	ck_assert_uint_ne(LIMITS_OF("SPILLWAY_MEMORY=40%"), 0);
	ck_assert_uint_ne(LIMITS_OF("SPILLWAY_MEMORY=40MiB", "SPILLWAY_MEMORY_MAX=50MiB"), forty);
	ck_assert_uint_ne(LIMITS_OF("SPILLWAY_MEMORY=40MiB", "SPILLWAY_HOST_MEMORY=1GiB"), forty);
	ck_assert_uint_ne(LIMITS_OF("SPILLWAY_HOST_MEMORY=1GiB"), 0);
	ck_assert_uint_ne(LIMITS_OF("SPILLWAY_MEMORY_0=40MiB"), 0);
	ck_assert_uint_ne(LIMITS_OF("SPILLWAY_MEMORY_0=40MiB"),
	                  LIMITS_OF("SPILLWAY_MEMORY_1=40MiB"));

	/* In any order, of any layer, however a selector is spelled. */
	ck_assert_uint_eq(LIMITS_OF("SPILLWAY_MEMORY_0=1MiB", "SPILLWAY_MEMORY_1=2MiB"),
	                  LIMITS_OF("SPILLWAY_MEMORY_1=2MiB", "SPILLWAY_MEMORY_0=1MiB"));
	both.file = scratch_write("job.ini", "[gpu]\nmemory = 40MiB\n");
	ck_assert_uint_eq(limits_of(load(both)),
	                  LIMITS_OF("SPILLWAY_MEMORY_1=1GiB", "SPILLWAY_MEMORY=40MiB"));
	ck_assert_uint_eq(limits_of(load_text("[gpu GPU-5AC31234]\nmemory = 1GiB\n")),
	                  limits_of(load_text("[gpu GPU-5ac31234]\nmemory = 1024MiB\n")));
}
END_TEST

/* The administrator's ceiling is a limit, and hides what is above it. */
START_TEST(a_ceiling_is_a_limit)
{
	struct config_sources sources = {
	    .system_file = scratch_write("system.ini", "[ceiling]\nmemory = 40MiB\n"),
	    .environment = ENVIRON("SPILLWAY_MEMORY=80MiB")};
	uint64_t forty = LIMITS_OF("SPILLWAY_MEMORY=40MiB");

	ck_assert_uint_eq(limits_of(load(sources)), forty);
	sources.environment = ENVIRON("A=b");
	ck_assert_uint_eq(limits_of(load(sources)), forty);
	sources.environment = ENVIRON("SPILLWAY_MEMORY=50%");
	ck_assert_uint_ne(limits_of(load(sources)), forty);
	sources.system_file = scratch_write("system.ini", "[ceiling]\nmemory = 50%\n");
	sources.environment = ENVIRON("A=b");
	ck_assert_uint_ne(limits_of(load(sources)), 0);
}
END_TEST

START_TEST(hash_is_fnv_1a)
{
	ck_assert_uint_eq(hash_bytes(HASH_NOTHING, "", 0), UINT64_C(0xcbf29ce484222325));
	ck_assert_uint_eq(hash_bytes(HASH_NOTHING, "foobar", 6), UINT64_C(0x85944171f73967e8));
}
END_TEST

START_TEST(missing_files)
{
	struct config_sources sources = {.system_file = scratch_path("no"),
	                                 .override_file = scratch_path("no")};
	struct config *config = load(sources);

	ck_assert(!config_job(config)->is_set);
	config_release(config);

	sources.file = scratch_path("no");
	ck_assert_str_eq(refused(sources, -ENOENT), "no: cannot read it: No such file or directory "
	                                            "(named by SPILLWAY_CONFIG)");
}
END_TEST

START_TEST(hami)
{
	char *const *environment =
	    ENVIRON("CUDA_DEVICE_MEMORY_LIMIT=3000m", "CUDA_DEVICE_MEMORY_LIMIT_1=2g",
	            "CUDA_DEVICE_SM_LIMIT=30", "CUDA_DEVICE_SM_LIMIT_1=0",
	            "GPU_CORE_UTILIZATION_POLICY=FORCE", "SPILLWAY_SHARE_0=40");
	char *const *unpaced =
	    ENVIRON("CUDA_DEVICE_SM_LIMIT=30", "GPU_CORE_UTILIZATION_POLICY=disable",
	            "CUDA_DEVICE_MEMORY_LIMIT=0");
	struct config *config = load_environment(environment);

	ck_assert_uint_eq(settings_of(config, gpu0).memory, 3000 * MIB);
	ck_assert_uint_eq(settings_of(config, gpu1).memory, 2 * GIB);
	ck_assert_uint_eq(settings_of(config, gpu0).share, 40000); /* ours */
	ck_assert_uint_eq(settings_of(config, gpu1).share, 30000); /* 0: as if absent */
	config_release(config);

	config = load_environment(unpaced);
	ck_assert(!config_job(config)->is_set);
	ck_assert_uint_eq(settings_of(config, gpu0).share, 100000);
	ck_assert_uint_eq(settings_of(config, gpu0).memory, CONFIG_UNLIMITED);
	config_release(config);
}
END_TEST

START_TEST(disabled)
{
	char *const *ours = ENVIRON("SPILLWAY_DISABLE=1");
	char *const *theirs = ENVIRON("CUDA_DISABLE_CONTROL=true");
	char *const *both = ENVIRON("CUDA_DISABLE_CONTROL=true", "SPILLWAY_DISABLE=no");
	struct config *config = load_environment(ours);

	ck_assert(config_job(config)->is_disabled);
	config_release(config);
	config = load_environment(theirs);
	ck_assert(config_job(config)->is_disabled);
	config_release(config);
	config = load_environment(both);
	ck_assert(!config_job(config)->is_disabled);
	config_release(config);
}
END_TEST

START_TEST(first_of_two_variables)
{
	char *const *environment =
	    ENVIRON("SPILLWAY_SHARE=10", "SPILLWAY_SHARE=20", "SPILLWAY_NVML=off",
	            "SPILLWAY_NVML=on", "SPILLWAY_STATUS_FILE=/a", "SPILLWAY_STATUS_FILE=/b");
	struct config *config = load_environment(environment);

	ck_assert_str_eq(config_job(config)->status_file, "/a");
	ck_assert_uint_eq(settings_of(config, gpu0).share, 10000);
	ck_assert(!config_job(config)->nvml);
	ck_assert_str_eq(config_job(config)->nvml_origin, "environment SPILLWAY_NVML");
	config_release(config);
}
END_TEST

START_TEST(misspelt_variable)
{
	char *const *environment =
	    ENVIRON("SPILLWAY_MEMORY_LIMT=8G", "SPILLWAY_LOGG=debug", "SPILLWAY_SHARE_X=1",
	            "SPILLWAY_TEST_DEVICES=2", "SPILLWAY_LOG=debug", "SPILLWAY", "PATH=/bin");
	struct config *config = load_environment(environment);

	ck_assert_str_eq(
	    config_job(config)->warnings,
	    "SPILLWAY_MEMORY_LIMT: unknown environment variable; did you mean "
	    "SPILLWAY_MEMORY?\n"
	    "SPILLWAY_LOGG: unknown environment variable; did you mean SPILLWAY_LOG?\n"
	    "SPILLWAY_SHARE_X: unknown environment variable; did you mean SPILLWAY_SHARE?");
	ck_assert(!config_job(config)->is_set);
	config_release(config);
}
END_TEST

START_TEST(bad_variables)
{
	static const struct {
		const char *variable;
		const char *message;
	} bad[] = {
	    {"SPILLWAY_MEMORY=8Gx",
	     "SPILLWAY_MEMORY = 8Gx: expected a size such as 8GiB or 512M, a percentage "
	     "such as 50%, or unlimited"},
	    {"SPILLWAY_SHARE_3=101",
	     "SPILLWAY_SHARE_3 = 101: expected a percentage from 0 to 100 such as 70"},
	    {"SPILLWAY_JOB=../etc", "SPILLWAY_JOB = ../etc: expected 1 to 63 letters"},
	    {"SPILLWAY_LABELS=team", "SPILLWAY_LABELS = team: expected labels such as"},
	    {"SPILLWAY_NVML=maybe", "SPILLWAY_NVML = maybe: expected yes or no"},
	    {"SPILLWAY_DISABLE=maybe", "SPILLWAY_DISABLE = maybe: expected yes or no"},
	    {"CUDA_DISABLE_CONTROL=x", "CUDA_DISABLE_CONTROL = x: expected yes or no"},
	    {"CUDA_DEVICE_MEMORY_LIMIT_0=8x", "CUDA_DEVICE_MEMORY_LIMIT_0 = 8x: expected"},
	    {"GPU_CORE_UTILIZATION_POLICY=x",
	     "GPU_CORE_UTILIZATION_POLICY = x: expected default, force or disable"},
	};

	for (size_t i = 0; i < COUNT(bad); i++) {
		char *const *environment = ENVIRON(bad[i].variable);
		struct config_sources sources = {.environment = environment};

		ck_assert_begins(refused(sources, -EINVAL), bad[i].message);
		ck_assert_int_eq(error.line, 0);
		ck_assert_uint_eq(strlen(error.file), strcspn(bad[i].variable, "="));
	}
}
END_TEST

/* The ceiling. */

START_TEST(ceiling)
{
	struct config_sources sources = {
	    .system_file = scratch_write("system.ini", "[ceiling]\nmemory = 10G\nshare = 50\n"
	                                               "host_memory = 64G\n"
	                                               "[gpu]\nshare = 40\n"),
	    .file = scratch_write("job.ini", "[gpu]\nmemory = 20G\n"
	                                     "memory_max = 30G\nshare = 70\n"
	                                     "[gpu 1]\nmemory = 25%\nshare = 30\n"),
	};
	struct config *config = load(sources);
	struct config_gpu settings = settings_of(config, gpu0);
	const char *warnings = config_job(config)->warnings;

	ck_assert_uint_eq(settings.memory, 10 * GIB);
	ck_assert_uint_eq(settings.memory_max, 10 * GIB);
	ck_assert_uint_eq(settings.share, 50000);
	ck_assert_uint_eq(settings.host_memory, 64 * GIB);
	ck_assert_str_eq(strrchr(config_origin(config, &gpu0, CONFIG_KEY_share), '/'),
	                 "/system.ini:3");
	ck_assert_uint_eq(settings_of(config, gpu1).memory, 10 * GIB);
	ck_assert_uint_eq(settings_of(config, gpu1).share, 30000);
	ck_assert_ptr_nonnull(strstr(warnings, "job.ini:2: memory = 20G: lowered to the "
	                                       "ceiling of 10G ("));
	ck_assert_ptr_nonnull(strstr(warnings, "job.ini:4: share = 70: lowered"));
	ck_assert_ptr_nonnull(strstr(warnings, "job.ini:6: memory = 25%: no more than the "
	                                       "ceiling of 10G ("));
	ck_assert_ptr_null(strstr(warnings, "share = 40"));
	config_release(config);
}
END_TEST

/*
 * The highest priority counts as the most; who keeps its memory by default keeps it as long as it
 * may.
 */
START_TEST(ceiling_of_priority)
{
	struct config *config = load_text("[gpu]\npriority = guaranteed\n"
	                                  "[gpu 1]\nidle_yield = 5s\n");
	struct config_sources sources = {
	    .file = scratch_write("job.ini", "[gpu]\npriority = guaranteed\nturn = exclusive\n"
	                                     "[gpu 1]\npriority = opportunistic\n")};

	ck_assert_uint_eq(settings_of(config, gpu0).idle_yield, CONFIG_NEVER);
	ck_assert_uint_eq(settings_of(config, gpu1).idle_yield, 5000000000);
	config_release(config);
	sources.system_file = scratch_write("system.ini", "[ceiling]\nidle_yield = 10m\n");
	config = load(sources);
	ck_assert_uint_eq(settings_of(config, gpu0).idle_yield, 600000000000);
	ck_assert_uint_eq(settings_of(config, gpu1).idle_yield, 30000000000);
	config_release(config);
	sources.system_file = scratch_write("system.ini", "[ceiling]\npriority = normal\n"
	                                                  "turn = fine\n");
	config = load(sources);
	ck_assert_uint_eq(settings_of(config, gpu0).priority, PRIORITY_NORMAL);
	ck_assert_uint_eq(settings_of(config, gpu0).turn, TURN_FINE);
	ck_assert_uint_eq(settings_of(config, gpu1).priority, PRIORITY_OPPORTUNISTIC);
	ck_assert_ptr_nonnull(strstr(config_job(config)->warnings,
	                             "job.ini:2: priority = guaranteed: "
	                             "lowered to the ceiling of normal"));
	config_release(config);
}
END_TEST

/* KAI's variables are whole MiB: the request, and the limit up to which it may rise. */
START_TEST(kai)
{
	struct config *config = load_environment(
	    ENVIRON("NVIDIA_GPU_MEMORY_REQUEST=2147", "NVIDIA_GPU_MEMORY_LIMIT=4294"));

	ck_assert_uint_eq(settings_of(config, gpu0).memory, 2147 * MIB);
	ck_assert_uint_eq(settings_of(config, gpu0).memory_max, 4294 * MIB);
	ck_assert_str_eq(config_origin(config, &gpu0, CONFIG_KEY_memory_max),
	                 "environment NVIDIA_GPU_MEMORY_LIMIT");
	config_release(config);

	/* A limit alone is the request, too; Spillway's own names go before. */
	config = load_environment(ENVIRON("NVIDIA_GPU_MEMORY_LIMIT=4Gi"));
	ck_assert_uint_eq(settings_of(config, gpu0).memory, 4 * GIB);
	config_release(config);
	config = load_environment(
	    ENVIRON("SPILLWAY_REQUEST=1GiB", "SPILLWAY_LIMIT=3GiB", "NVIDIA_GPU_MEMORY_REQUEST=5",
	            "NVIDIA_GPU_MEMORY_LIMIT=0", "NVIDIA_GPU_MEMORY_LIMITS=7"));
	ck_assert_uint_eq(settings_of(config, gpu0).memory, GIB);
	ck_assert_uint_eq(settings_of(config, gpu0).memory_max, 3 * GIB);
	config_release(config);
	config = load_text("[gpu]\nrequest = 1GiB\nlimit = 3GiB\n");
	ck_assert_uint_eq(settings_of(config, gpu0).memory, GIB);
	ck_assert_uint_eq(settings_of(config, gpu0).memory_max, 3 * GIB);
	config_release(config);
	config = load_environment(ENVIRON("NVIDIA_GPU_MEMORY_REQUEST=0", "SPILLWAY_MEMORY_MAX=0"));
	ck_assert_uint_eq(settings_of(config, gpu0).memory, CONFIG_UNLIMITED);
	config_release(config);

	/* No value is passed over for its length. */
	ck_assert_ptr_nonnull(
	    strstr(refused(
	               (struct config_sources){
	                   .environment =
	                       ENVIRON("NVIDIA_GPU_MEMORY_LIMIT=4294967296 of the smaller kind")},
	               -EINVAL),
	           "4294967296 of the smaller kind"));
	ck_assert_ptr_nonnull(strstr(
	    refused((struct config_sources){.environment = ENVIRON(
	                                        "NVIDIA_GPU_MEMORY_LIMIT=1000000000000000000000")},
	            -EINVAL),
	    "1000000000000000000000"));
}
END_TEST

/* A pod's names are labels in Kubernetes alone, and never go before a label that was given. */
START_TEST(labels_of_a_pod)
{
	char full[280] = "SPILLWAY_LABELS=a=";
	struct config *config = load_environment(
	    ENVIRON("POD_NAME=bert", "POD_NAMESPACE=vision", "SPILLWAY_LABELS=a=b"));

	ck_assert_str_eq(config_job(config)->labels, "a=b");
	config_release(config);
	config = load_environment(
	    ENVIRON("KUBERNETES_SERVICE_HOST=10.96.0.1", "POD_NAME=bert", "POD_NAMESPACE=vision"));
	ck_assert_str_eq(config_job(config)->labels, "pod=bert,namespace=vision");
	config_release(config);
	config = load_environment(ENVIRON("KUBERNETES_SERVICE_HOST=10.96.0.1", "POD_NAME=bert",
	                                  "POD_NAMESPACE=vis\"ion",
	                                  "SPILLWAY_LABELS=a=b,pod=own,team=x"));
	ck_assert_str_eq(config_job(config)->labels, "a=b,pod=own,team=x");
	config_release(config);
	/* 255 bytes at most: "a=" and 240 letters leave room for ",pod=bert" and for no more. */
	memset(full + strlen(full), 'x', 240);
	config = load_environment(ENVIRON("KUBERNETES_SERVICE_HOST=10.96.0.1", full,
	                                  "POD_NAME=bert", "POD_NAMESPACE=vision"));
	ck_assert_uint_eq(strlen(config_job(config)->labels), 251);
	config_release(config);
}
END_TEST

START_TEST(ceiling_reserve)
{
	struct config_sources sources = {
	    .system_file = scratch_write("system.ini", "[ceiling]\nreserve = 1GiB\n")};
	struct config *config = load(sources);

	ck_assert_uint_eq(config_reserve(config, &gpu0), GIB);
	config_release(config);
	sources.system_file = scratch_write("system.ini", "[ceiling]\nreserve = 25%\n");
	config = load(sources);
	ck_assert_uint_eq(config_reserve(config, &gpu0), gpu0.memory / 4);
	config_release(config);
	sources.system_file = scratch_write("system.ini", "[ceiling]\nreserve = unlimited\n");
	ck_assert_ptr_nonnull(strstr(refused(sources, -EINVAL), "expected a size such as 1GiB"));
	config = load((struct config_sources){0});
	ck_assert_uint_eq(config_reserve(config, &gpu0), 0);
	config_release(config);
}
END_TEST

/* The machine's file says whose jobs may be guaranteed; others' are normal, to themselves, too. */
START_TEST(ceiling_of_users)
{
	struct config_sources sources = {
	    .file = scratch_write("job.ini", "[gpu]\npriority = guaranteed\n")};
	char text[128];
	struct config *config;

	snprintf(text, sizeof(text), "[ceiling]\nguaranteed = 4294967290, %u\n",
	         (unsigned)geteuid());
	sources.system_file = scratch_write("system.ini", text);
	config = load(sources);
	ck_assert_uint_eq(settings_of(config, gpu0).priority, PRIORITY_GUARANTEED);
	config_release(config);
	sources.system_file =
	    scratch_write("system.ini", "[ceiling]\nguaranteed = 4294967290,4294967289\n");
	config = load(sources);
	ck_assert_uint_eq(settings_of(config, gpu0).priority, PRIORITY_NORMAL);
	ck_assert_uint_eq(settings_of(config, gpu0).idle_yield, 30000000000);
	config_release(config);
	for (int i = 0; i < 3; i++) {
		static const char *const bad[] = {"guaranteed = ada",
		                                  "guaranteed =", "guaranteed = 1 x"};

		snprintf(text, sizeof(text), "[ceiling]\n%s\n", bad[i]);
		sources.system_file = scratch_write("system.ini", text);
		ck_assert_ptr_nonnull(strstr(refused(sources, -EINVAL),
		                             "expected numbers of users, as id -u prints them"));
	}
}
END_TEST

START_TEST(ceiling_of_growth)
{
	struct config_sources sources = {
	    .system_file = scratch_write("system.ini", "[ceiling]\nmemory = 50%\n"
	                                               "memory_max = 75%\n"),
	    .file = scratch_write("job.ini", "[gpu]\nmemory_max = unlimited\n"
	                                     "memory = unlimited\n"),
	};
	struct config *config = load(sources);

	ck_assert_uint_eq(settings_of(config, gpu0).memory, 8 * GIB);
	ck_assert_uint_eq(settings_of(config, gpu0).memory_max, 12 * GIB);
	config_release(config);
}
END_TEST

START_TEST(ceiling_in_the_wrong_place)
{
	struct config_sources override = {.override_file =
	                                      scratch_write("over.ini", "[ceiling]\nshare = 5\n")};

	ck_assert_str_eq(
	    refused_text("[ceiling]\nshare = 50\n"),
	    "job.ini:1: [ceiling]: expected in /etc/spillway/spillway.ini alone, where "
	    "the administrator sets it");
	ck_assert_begins(refused(override, -EINVAL), "over.ini:1: [ceiling]");
}
END_TEST

/* Contradictions. */

START_TEST(growth_below_the_limit)
{
	char *const *environment = ENVIRON("SPILLWAY_MEMORY_0=8G");
	struct config_sources sources = {.environment = environment};
	struct config *config;

	ck_assert_begins(refused_text("[gpu]\nmemory = 8G\nmemory_max = 4G\n"),
	                 "job.ini:3: memory_max = 4G: below memory = 8G (");
	ck_assert_begins(refused_text("[gpu]\nmemory = 80%\nmemory_max = 40%\n"),
	                 "job.ini:3: memory_max = 40%: below");
	sources.file = scratch_write("job.ini", "[gpu]\nmemory_max = 4G\n");
	/* A stronger layer may say otherwise than a weaker one: the limit does not rise then. */
	ck_assert_int_eq(config_load(&sources, &config, &error), 0);
	ck_assert_ptr_nonnull(strstr(config_job(config)->warnings,
	                             "job.ini:2: memory_max = 4G: below memory = 8G "
	                             "(environment SPILLWAY_MEMORY_0), so that the limit "
	                             "does not rise by itself"));
	ck_assert_uint_eq(settings_of(config, gpu0).memory, 8 * GIB);
	ck_assert_uint_eq(settings_of(config, gpu0).memory_max, 0);
	config_release(config);
	ck_assert_begins(refused_text("[gpu 3b:00.0]\nmemory = 8G\n"
	                              "[gpu]\nmemory_max = 4G\nmemory = 2G\n"),
	                 "job.ini:4: memory_max");
	ck_assert_begins(refused_text("[gpu GPU-12]\nmemory = 8G\n"
	                              "[gpu]\nmemory_max = 4G\nmemory = 2G\n"),
	                 "job.ini:4: memory_max");

	config = load_text("[gpu]\nmemory = 8G\nmemory_max = 0\n"
	                   "[gpu 0]\nmemory_max = 8G\n"
	                   "[gpu 1]\nmemory = unlimited\nmemory_max = 4G\n");
	ck_assert_uint_eq(settings_of(config, gpu0).memory_max, 8 * GIB);
	ck_assert_uint_eq(settings_of(config, gpu1).memory_max, 0);
	config_release(config);
}
END_TEST

START_TEST(growth_below_a_percentage)
{
	struct config *config = load_text("[gpu]\nmemory = 50%\nmemory_max = 10G\n");

	ck_assert_uint_eq(settings_of(config, gpu0).memory_max, 10 * GIB);
	ck_assert_uint_eq(settings_of(config, gpu1).memory_max, 0);
	config_release(config);
}
END_TEST

/* Bad files. */

START_TEST(bad_text)
{
	static const struct {
		const char *text;
		const char *message;
	} bad[] = {
	    {"[gpu]\nmemory = 8Gx\n",
	     "job.ini:2: memory = 8Gx: expected a size such as 8GiB or 512M, a percentage "
	     "such as 50%, or unlimited"},
	    {"[gpu]\nmemory = \n", "job.ini:2: memory = : expected a size"},
	    {"[gpu]\nmemory = -1\n", "job.ini:2: memory = -1: expected a size"},
	    {"[gpu]\nmemory = auto\n", "job.ini:2: memory = auto: expected"},
	    {"[gpu]\nmemory = 101%\n", "job.ini:2: memory = 101%: expected"},
	    {"[gpu]\nhost_memory = 50%\n",
	     "job.ini:2: host_memory = 50%: expected a size such as 8GiB or 512M, auto or "
	     "unlimited"},
	    {"[gpu]\nhost_memory = 18446744073709551614B\n",
	     "job.ini:2: host_memory = 18446744073709551614B: expected a size"},
	    {"[gpu]\nmemory = 20\n", "job.ini:2: memory = 20: no unit; did you mean 20GiB?"},
	    {"[gpu]\nmemory = 1.5\n", "job.ini:2: memory = 1.5: no unit; did you mean 1.5GiB?"},
	    {"[gpu]\nmemory = 0.7\n",
	     "job.ini:2: memory = 0.7: no unit; did you mean 70% or 0.7GiB?"},
	    {"[gpu 1]\nmemory_max = 24564\n",
	     "job.ini:2: memory_max = 24564: no unit; did you mean 24564MiB?"},
	    {"[gpu]\nhost_memory = 8589934592\n",
	     "job.ini:2: host_memory = 8589934592: no unit; did you mean 8589934592B?"},
	    {"[gpu]\nhost_memory = 0.5\n",
	     "job.ini:2: host_memory = 0.5: no unit; did you mean 0.5GiB?"},
	    {"[gpu]\nshare = 0.7\n",
	     "job.ini:2: share = 0.7: less than 1 %; did you mean 70%? If not, write 0.7%"},
	    {"[gpu]\nslowdown = 0.025\n",
	     "job.ini:2: slowdown = 0.025: less than 1 %; did you mean 2.5%? If not, write 0.025%"},
	    {"[gpu]\nshare_window = 100\n",
	     "job.ini:2: share_window = 100: no unit; did you mean 100ms?"},
	    {"[gpu]\nidle_yield = 30\n", "job.ini:2: idle_yield = 30: no unit; did you mean 30s?"},
	    {"[gpu]\nshare = 101\n",
	     "job.ini:2: share = 101: expected a percentage from 0 to 100 such as 70"},
	    {"[gpu]\nshare_policy = hard\n",
	     "job.ini:2: share_policy = hard: expected cap or weight"},
	    {"[gpu]\npriority = high\n",
	     "job.ini:2: priority = high: expected opportunistic, normal or guaranteed"},
	    {"[gpu]\nidle_yield = often\n",
	     "job.ini:2: idle_yield = often: expected a duration such as 100ms or 2s, or never"},
	    {"[gpu]\nturn = half\n", "job.ini:2: turn = half: expected fine or exclusive"},
	    {"[gpu]\nspill = none\n",
	     "job.ini:2: spill = none: expected auto, vmm, managed, pinned or off"},
	    {"[gpu]\nspill_after = 1.5\n",
	     "job.ini:2: spill_after = 1.5: expected a whole number such as 3, or auto"},
	    {"[gpu]\nshare_window = soon\n",
	     "job.ini:2: share_window = soon: expected a duration such as 100ms or 2s"},
	    {"[gpu]\nreported_memory = all\n",
	     "job.ini:2: reported_memory = all: expected auto, limit or limit+host"},
	    {"[gpu]\nsteps = maybe\n", "job.ini:2: steps = maybe: expected auto, on or off"},
	    {"[gpu]\nmixed = half\n", "job.ini:2: mixed = half: expected auto or whole"},
	    {"[gpu]\nplacement = best\n",
	     "job.ini:2: placement = best: expected auto, balanced or heat"},
	    {"[gpu]\nshrink = slow\n", "job.ini:2: shrink = slow: expected fast or gentle"},
	    {"[gpu]\npin_new = maybe\n", "job.ini:2: pin_new = maybe: expected auto, yes or no"},
	    {"[gpu]\nmemory_limt = 8G\n",
	     "job.ini:2: memory_limt: unknown key in [gpu], did you mean memory?; "
	     "expected one of memory, memory_max, host_memory, share, share_policy, "
	     "share_window, priority, slowdown, turn, turn_length, idle_yield, steps, spill, "
	     "spill_after, reported_memory, mixed, placement, survey, "
	     "demote_deadline, "
	     "shrink, deferred_free, pin_new, evict"},
	    {"[job]\nname = -x\n",
	     "job.ini:2: name = -x: expected 1 to 63 letters, digits, '.', '_' or '-', not "
	     "beginning with '.' or '-'"},
	    {"[gpu]\nname = x\n", "job.ini:2: name: belongs to [job], not to [gpu]"},
	    {"[gpu 0]\n\nlabels = a=b\n", "job.ini:3: labels: belongs to [job], not to [gpu 0]"},
	    {"[gpu]\nlabel = a=b\n", "job.ini:2: label: unknown key in [gpu], did you mean labels, "
	                             "which belongs to [job]?; expected one of memory, "},
	    {"[gpu]\n= 8G\n", "job.ini:2: : unknown key in [gpu]; expected"},
	    {"[job]\nshare = 5\n", "job.ini:2: share: belongs to [gpu], not to [job]"},
	    {"[job]\nmemory = 5G\n", "job.ini:2: memory: belongs to [gpu], not to [job]"},
	    {"[job]\nmemory_limt = 5G\n",
	     "job.ini:2: memory_limt: unknown key in [job], did you mean memory, which "
	     "belongs "
	     "to [gpu]?; expected one of name, labels, nvml, status_file"},
	    {"[job]\ncolour = 5\n",
	     "job.ini:2: colour: unknown key in [job]; expected one of name, labels, nvml"},
	    {"\n[gpuu]\n",
	     "job.ini:2: [gpuu]: unknown section, did you mean gpu?; expected one of job, gpu, "
	     "ceiling"},
	    {"[gpu\tx]\n", "job.ini:1: [gpu\tx]: unknown section"},
	    {"[job]\nname = a b\n", "job.ini:2: name = a b: expected 1 to 63 letters"},
	    {"[job]\nname = .hidden\n", "job.ini:2: name = .hidden: expected"},
	    {"[job]\nnvml = maybe\n", "job.ini:2: nvml = maybe: expected yes or no"},
	    {"[job]\nstatus_file = relative\n",
	     "job.ini:2: status_file = relative: expected the absolute path of a file"},
	    {"[job]\nstatus_file = /folder/\n", "job.ini:2: status_file = /folder/: expected"},
	    {"[job]\nstatus_file = /a\nstatus_file = /b\n",
	     "job.ini:3: status_file = /b: already set in line 2"},
	    {"[job]\nnvml = no\nnvml = no\n", "job.ini:3: nvml = no: already set in line 2"},
	    {"[job]\nlabels = a=b,\n", "job.ini:2: labels = a=b,: expected labels"},
	    {"[job]\nlabels = a=\"b\"\n", "job.ini:2: labels = a=\"b\": expected labels"},
	};

	for (size_t i = 0; i < COUNT(bad); i++) {
		ck_assert_begins(refused_text(bad[i].text), bad[i].message);
		ck_assert_int_eq(error.line, bad[i].message[8] - '0');
		ck_assert_str_eq(strrchr(error.file, '/'), "/job.ini");
	}
}
END_TEST

START_TEST(ceiling_takes_eight_keys)
{
	struct config_sources sources = {
	    .system_file = scratch_write("system.ini", "[ceiling]\nspill = off\n")};

	ck_assert_str_eq(refused(sources, -EINVAL),
	                 "system.ini:2: spill: belongs to [gpu], not to [ceiling]");
	sources.system_file = scratch_write("system.ini", "[ceiling]\nname = x\n");
	ck_assert_str_eq(refused(sources, -EINVAL),
	                 "system.ini:2: name: belongs to [job], not to [ceiling]");
	sources.system_file = scratch_write("system.ini", "[ceiling]\ncolour = x\n");
	ck_assert_str_eq(refused(sources, -EINVAL),
	                 "system.ini:2: colour: unknown key in [ceiling]; expected one of "
	                 "memory, memory_max, host_memory, share, priority, turn, turn_length, "
	                 "idle_yield, enforce, per, required, state_dir, "
	                 "guaranteed, reserve");
}
END_TEST

START_TEST(override_does_not_rename)
{
	struct config_sources sources = {.override_file =
	                                     scratch_write("over.ini", "[job]\nname = other\n")};

	ck_assert_str_eq(refused(sources, -EINVAL),
	                 "over.ini:2: name = other: a running job cannot be renamed");
}
END_TEST

/* Lines that inih would take in silence. */
START_TEST(traps)
{
	char line[400];

	/* the tail of a line that is too long becomes a setting */
	snprintf(line, sizeof(line), "[gpu]\nshare = 70 ;%*smemory = 1G\n", 190, "");
	ck_assert_begins(refused_text(line), "job.ini:2: share = 70 ;");
	ck_assert_ptr_nonnull(strstr(error.message, "expected at most 197"));

	/* a section's name is cut */
	ck_assert_begins(refused_text("[gpu GPU-00000000-1111-2222-3333-444444444444-5555555]\n"),
	                 "job.ini:1: [gpu GPU-00000000-1111-2222-3333-444444444444-5555555]: "
	                 "expected a section name of at most 49 bytes");
	/* an indented line repeats the previous key */
	ck_assert_str_eq(
	    refused_text("[gpu]\nshare = 70\n  30\n"),
	    "job.ini:3: 30: begins with white space; expected [section] or key = value "
	    "in the first column");
	ck_assert_begins(refused_text("[gpu]\n\tshare = 70\n"), "job.ini:2: share = 70: begins");
	ck_assert_begins(refused_text(" [gpu]\n"), "job.ini:1: [gpu]: begins with white space");
	/* what follows a section is ignored */
	ck_assert_str_eq(refused_text("[gpu] share = 70\n"),
	                 "job.ini:1: [gpu] share = 70: expected nothing after ]");
	ck_assert_begins(refused_text("[gpu\nshare = 70\n"), "job.ini:1: [gpu: expected ]");
	/* so is a key before any section, a line without "=", a repeated key */
	ck_assert_begins(refused_text("share = 70\n"), "job.ini:1: share = 70: expected a section");
	ck_assert_str_eq(refused_text("[gpu]\nshare\nshare = 700\n"),
	                 "job.ini:2: expected [section], key = value or a comment");
	ck_assert_begins(refused_text("[gpu]\nshare ; = 70\n"), "job.ini:2: expected");
	ck_assert_str_eq(
	    refused_text("[gpu 0]\nshare = 70\n[gpu]\nshare = 60\n[gpu 0]\nshare = 5\n"),
	    "job.ini:6: share = 5: already set in line 2; expected each key once");
	ck_assert_begins(refused_text("[gpu GPU-aB]\nshare = 70\n[gpu gpu-Ab]\nshare = 5\n"),
	                 "job.ini:4: share = 5: already set in line 2");
	ck_assert_begins(refused_text("[job]\nname = a\nname = b\n"),
	                 "job.ini:3: name = b: already set in line 2");
	/* a NUL ends the line, a lone CR does not */
	ck_assert_str_eq(refused_bytes("[gpu]\nshare = 70\0 0\n", 19),
	                 "job.ini:2: byte 11 is 0x00: expected plain text");
	ck_assert_begins(refused_text("[gpu]\rshare = 70\r"), "job.ini:1: byte 6 is 0x0d");
	ck_assert_begins(refused_bytes("\xff\xfe[\0g\0", 6), "job.ini:1: byte 4 is 0x00");

	/* the longest line there may be has 12 + 185 bytes */
	snprintf(line, sizeof(line), "[gpu]\nshare = 70 ;%*s\nspill = off", 185, "");
	config_release(load_text(line));
	snprintf(line, sizeof(line), "[gpu]\nshare = 70 ;%*s\nspill = off", 186, "");
	refused_text(line);
}
END_TEST

START_TEST(windows_file)
{
	struct config *config =
	    load_text("\xef\xbb\xbf[gpu]\r\nshare = 70\r\n\r\n; end\r\nspill = off\r");
	struct config_gpu settings = settings_of(config, gpu0);

	ck_assert_uint_eq(settings.share, 70000);
	ck_assert_uint_eq(settings.spill, SPILL_OFF);
	config_release(config);

	config = load_text("\xef\xbb\xbf");
	config_release(config);
	ck_assert_begins(refused_text("\xef\xbb\xbf [gpu]\n"), "job.ini:1: [gpu]: begins");
}
END_TEST

START_TEST(no_files)
{
	struct config_sources sources = {.system_file = scratch_folder};
	const char *path = scratch_path("job.ini");

	refused(sources, -EISDIR);
	ck_assert_ptr_nonnull(strstr(error.message, ": cannot read it: Is a directory"));

	ck_assert_int_eq(mkfifo(path, 0600), 0);
	sources.system_file = path;
	ck_assert_str_eq(refused(sources, -EINVAL), "job.ini: expected a regular file");
	unlink(path);

	scratch_write("job.ini", "");
	ck_assert_int_eq(truncate(path, (1 << 20) + 1), 0);
	ck_assert_begins(refused(sources, -EFBIG), "job.ini: cannot read it: File too large");

	if (geteuid() != 0) {
		ck_assert_int_eq(truncate(path, 0), 0);
		ck_assert_int_eq(chmod(path, 0), 0);
		ck_assert_begins(refused(sources, -EACCES), "job.ini: cannot read it");
	}
}
END_TEST

START_TEST(symlinks)
{
	const char *link = scratch_path("link.ini");
	struct config_sources sources = {.file = link};

	ck_assert_int_eq(symlink(scratch_write("job.ini", "[gpu]\nshare = 5\n"), link), 0);
	config_release(load(sources));
	sources = (struct config_sources){.override_file = link};
	ck_assert_begins(refused(sources, -ELOOP), "link.ini: cannot read it");
}
END_TEST

/* Values. */

/* Returns how many words a key takes, as help names them: "auto|whole"; 1 where it takes others. */
static uint64_t choices_of(enum config_key key)
{
	char argument[64];
	uint64_t count = 1;

	config_key_argument(key, argument, sizeof(argument));
	for (const char *c = argument; *c; c++)
		count += *c == '|';
	return count;
}

START_TEST(values_round_trip)
{
	for (int i = 0; i < 20000; i++) {
		enum config_key key = (enum config_key)(scratch_random() % CONFIG_KEY_COUNT);
		uint64_t number = scratch_random() >> (scratch_random() % 64);
		struct config_value value = {0};
		struct config_problem problem;
		char text[64];

		if (key == CONFIG_KEY_share || key == CONFIG_KEY_slowdown)
			number %= 100001;
		else if (key == CONFIG_KEY_pin_new && number % 3 == 2)
			number = CONFIG_AUTO;
		else if (choices_of(key) > 1)
			number %= choices_of(key);
		else if (key == CONFIG_KEY_host_memory && number % 8 == 0)
			number = number % 16 == 0 ? CONFIG_AUTO : CONFIG_UNLIMITED;
		config_format(key, number, text, sizeof(text));
		ck_assert_msg(!config_value_lacks_unit(key, text, &problem) &&
		                  config_value_parse(key, text, &value, &problem) == 0,
		              "%s = %s: %s", config_key_name(key), text, problem.text);
		ck_assert_msg(value.number == number && !value.of_memory, "%s = %s",
		              config_key_name(key), text);
	}
}
END_TEST

START_TEST(builtins_are_values)
{
#define X(field, kind, builtin, ...)                                                   \
	ck_assert_int_eq(config_check_value(CONFIG_KEY_##field, builtin, NULL, 0), 0); \
	ck_assert_str_eq(config_key_name(CONFIG_KEY_##field), #field);                 \
	CONFIG_GPU_KEYS(X)
#undef X
}
END_TEST

/* An old spelling is taken in INI files, in [ceiling] and in the environment, and means the key. */
START_TEST(old_spellings)
{
	const char *const environment[] = {"SPILLWAY_MEMORY_LIMIT=1GiB", "SPILLWAY_MEMORY=2GiB",
	                                   "SPILLWAY_HOST_LIMIT_0=3GiB",
	                                   "SPILLWAY_REPORTED=limit+host", NULL};
	char option[CONFIG_SPELLING_MAX], text[128];
	struct config_sources sources = {.environment = (char *const *)environment};
	struct config *config = load(sources);
	struct config_gpu settings = settings_of(config, gpu0);
	const char *spelling;
	enum config_key key;
	int count = 0;

	ck_assert_uint_eq(settings.memory, 2 * GIB); /* the key's own name goes before */
	ck_assert_uint_eq(settings.host_memory, 3 * GIB);
	ck_assert_uint_eq(settings_of(config, gpu1).host_memory, CONFIG_AUTO);
	ck_assert_uint_eq(settings.reported_memory, REPORTED_LIMIT_AND_HOST);
	ck_assert_str_eq(config_job(config)->warnings, "");
	config_release(config);

	for (; (spelling = config_old_spelling(count, &key)); count++) {
		const char *value = key == CONFIG_KEY_reported_memory ? "limit+host" : "5GiB";

		ck_assert_int_eq(config_find_key(spelling), key);
		ck_assert_str_ne(config_key_name(key), spelling);
		snprintf(text, sizeof(text), "[gpu]\nmemory = 1GiB\n[gpu 0]\n%s = %s\n", spelling,
		         value);
		config = load((struct config_sources){.file = scratch_write("old.ini", text)});
		ck_assert_uint_eq(settings_of(config, gpu0).of[key],
		                  key == CONFIG_KEY_reported_memory ? REPORTED_LIMIT_AND_HOST
		                                                    : 5 * GIB);
		config_release(config);
	}
	ck_assert_int_eq(count, CONFIG_OLD_SPELLING_COUNT);

	/* Both spellings in one file are one key twice. */
	ck_assert_ptr_nonnull(strstr(refused_text("[gpu]\nmemory = 1GiB\nmemory_limit = 2GiB\n"),
	                             "already set in line 2"));
	sources = (struct config_sources){
	    .system_file = scratch_write("ceiling.ini", "[ceiling]\nhost_limit = 1GiB\n"),
	    .file = scratch_write("job.ini", "[gpu]\nhost_memory = 9GiB\n")};
	config = load(sources);
	ck_assert_uint_eq(settings_of(config, gpu0).host_memory, GIB);
	config_release(config);

	/* Each key has one spelling, in three forms. */
	for (int k = 0; k < CONFIG_KEY_COUNT; k++) {
		ck_assert_int_eq(config_find_key(config_key_name((enum config_key)k)), k);
		ck_assert_str_eq(config_key_name_for((enum config_key)k, UINT32_MAX),
		                 config_key_name((enum config_key)k));
	}
	ck_assert_str_eq(config_key_name_for(CONFIG_KEY_memory_max, 7), "memory_limit_max");
	ck_assert_str_eq(config_key_name_for(CONFIG_KEY_reported_memory, 7), "reported_memory");
	ck_assert_str_eq(config_as_option("host_memory", option), "host-memory");

	/* A value may have an old spelling, too. */
	config = load(
	    (struct config_sources){.file = scratch_write("job.ini", "[gpu]\nturn = whole\n")});
	ck_assert_uint_eq(settings_of(config, gpu0).turn, TURN_EXCLUSIVE);
	config_release(config);
	config_format(CONFIG_KEY_turn, TURN_EXCLUSIVE, text, sizeof(text));
	ck_assert_str_eq(text, "exclusive");
	ck_assert_str_eq(config_value_for(CONFIG_KEY_turn, "exclusive", 7), "whole");
	ck_assert_str_eq(config_value_for(CONFIG_KEY_turn, "exclusive", 8), "exclusive");
	ck_assert_str_eq(config_value_for(CONFIG_KEY_turn, "fine", 7), "fine");
	ck_assert_str_eq(config_as_variable("host_memory", option), "SPILLWAY_HOST_MEMORY");
}
END_TEST

START_TEST(check_value)
{
	char message[CONFIG_MESSAGE_MAX];

	ck_assert_int_eq(config_check_value(CONFIG_KEY_memory, "50%", message, 10), 0);
	ck_assert_int_eq(config_check_value(CONFIG_KEY_share, "x", message, sizeof(message)),
	                 -EINVAL);
	ck_assert_str_eq(message, "expected a percentage from 0 to 100 such as 70");
	ck_assert_int_eq(config_check_value(CONFIG_KEY_spill, "x", message, 12), -EINVAL);
	ck_assert_str_eq(message, "expected au");
	/* 0 needs no unit, and the units that the questions name are the way to say it. */
	ck_assert_int_eq(config_check_value(CONFIG_KEY_memory, "0", NULL, 0), 0);
	ck_assert_int_eq(config_check_value(CONFIG_KEY_host_memory, "20B", NULL, 0), 0);
	ck_assert_int_eq(config_check_value(CONFIG_KEY_idle_yield, "0", NULL, 0), 0);
	ck_assert_int_eq(config_check_value(CONFIG_KEY_share, "0", NULL, 0), 0);
	ck_assert_int_eq(config_check_value(CONFIG_KEY_share, "0.7%", NULL, 0), 0);
	ck_assert_int_eq(config_check_value(CONFIG_KEY_share, "1", NULL, 0), 0);
	ck_assert_int_eq(config_check_value(CONFIG_KEY_memory, "20", NULL, 0), -EINVAL);
}
END_TEST

/* Anything at all. */

/* Mostly lines that are right: random bytes alone never get past the first. */
static size_t random_file(char *text, size_t size)
{
	static const char *const lines[] = {
	    "[gpu]\n",      "[gpu 0]\n",    "[gpu GPU-5ac3]\n",      "[ceiling]\r\n",
	    "memory=50%\n", "share = 70\n", "memory_max = 9G ; x\n", "host_memory: unlimited\n",
	    "\n",           "# comment\n",
	};
	static const char *const pieces[] = {
	    "[job]\n",
	    "name",
	    "labels",
	    "memory",
	    "spill",
	    "=",
	    ":",
	    "[",
	    "]",
	    "\n",
	    "\r",
	    "\t",
	    " ",
	    ";",
	    "8GiB",
	    "a=b",
	    "\xef\xbb\xbf",
	    "\x80",
	    "share",
	    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
	};
	size_t used = 0;
	size_t count = scratch_random() % 16;
	unsigned noise = (unsigned)(scratch_random() % 8);

	while (count-- > 0 && used + 128 < size) {
		unsigned dice = (unsigned)(scratch_random() % 16);
		const char *piece = dice < noise ? pieces[scratch_random() % COUNT(pieces)]
		                                 : lines[scratch_random() % COUNT(lines)];

		used += (size_t)(stpcpy(text + used, piece) - (text + used));
		if (dice + 1 == noise)
			text[used++] = (char)scratch_random();
	}
	text[used] = '\0';
	return used;
}

START_TEST(random_files)
{
	int taken = 0;

	for (int i = 0; i < 50000; i++) {
		char text[4096];
		size_t length = random_file(text, sizeof(text));
		char *exact = malloc(length + 1); /* so that a sanitizer sees one byte too far */
		struct config *config = config_create();
		int lines = 1;
		int status;

		memcpy(exact, text, length + 1);
		for (size_t c = 0; c < length; c++)
			lines += text[c] == '\n';
		memset(&error, 0, sizeof(error));
		status = config_add_text(config, LAYER_SYSTEM, "fuzz.ini", exact, length, &error);
		if (status == 0)
			status = config_check(config, &error);
		if (status == 0) {
			settings_of(config, gpu0);
			config_origin(config, &gpu1, CONFIG_KEY_memory);
			taken += config->count > 0;
		} else {
			ck_assert_int_eq(status, -EINVAL);
			ck_assert_begins(error.message, "fuzz.ini:");
			ck_assert_msg(error.line >= 1 && error.line <= lines, "%s", error.message);
		}
		config_release(config);
		free(exact);
	}
	ck_assert_int_gt(taken, 100);
}
END_TEST

/* Files that people read. */

START_TEST(example_file)
{
	char *text = scratch_read("conf/spillway.ini");
	struct config_sources sources = {.system_file = "conf/spillway.ini"};
	struct config *config = load(sources);

	ck_assert_uint_eq(config->count, 0); /* as shipped it changes nothing */
	ck_assert_str_eq(config_job(config)->name, "");
	config_release(config);

	for (char *c = text; *c; c++)
		if (*c == ';' && (c == text || c[-1] == '\n'))
			*c = '\r';
	for (char *c = text; *c; c++)
		if (*c == '\r')
			memmove(c, c + 1, strlen(c));
	sources.system_file = scratch_write("example.ini", text);
	config = load(sources);
	for (int key = 0; key < CONFIG_KEY_COUNT; key++) {
		struct config_selector all = {.kind = SELECT_ALL};

		ck_assert_msg(config_find(config, LAYER_SYSTEM, (enum config_key)key, &all) != NULL,
		              "conf/spillway.ini lacks %s", config_key_name((enum config_key)key));
	}
	ck_assert_str_ne(config_job(config)->name, "");
	ck_assert_str_ne(config_job(config)->labels, "");
	ck_assert_str_ne(config_job(config)->nvml_origin, "built-in");
	ck_assert_ptr_nonnull(config_job(config)->status_file);
	config_release(config);
	free(text);
}
END_TEST

START_TEST(man_page)
{
	static const char *const more[] = {"*name*",
	                                   "*labels*",
	                                   "*nvml*",
	                                   "*status_file*",
	                                   "SPILLWAY_STATUS_FILE*",
	                                   "*SPILLWAY_NODE_DIR*",
	                                   "*SPILLWAY_NVML*",
	                                   "*[ceiling]*",
	                                   "*SPILLWAY_CONFIG*",
	                                   "*SPILLWAY_JOB*",
	                                   "*SPILLWAY_LABELS*",
	                                   "*SPILLWAY_LOG*",
	                                   "*SPILLWAY_STATE_DIR*",
	                                   "*SPILLWAY_DRIVER*",
	                                   "*SPILLWAY_DISABLE*",
	                                   "*CUDA_DEVICE_MEMORY_LIMIT",
	                                   "*CUDA_DEVICE_SM_LIMIT",
	                                   "*GPU_CORE_UTILIZATION_POLICY*",
	                                   "*CUDA_DISABLE_CONTROL*"};
	char *text = scratch_read("tools/man/spillway.ini.5.scd");

#define X(field, kind, builtin, ...)                                                          \
	{                                                                                     \
		char *entry = strstr(text, "\n*" #field "* = ");                              \
		char *next = entry ? strstr(entry + 1, "\n*") : NULL;                         \
		char *default_value = entry ? strstr(entry, "Default: *" builtin "*") : NULL; \
		ck_assert_msg(entry != NULL, "no entry for " #field);                         \
		ck_assert_msg(default_value && (!next || default_value < next),               \
		              "no default for " #field);                                      \
	}
	CONFIG_GPU_KEYS(X)
#undef X
	for (size_t i = 0; i < COUNT(more); i++)
		ck_assert_msg(strstr(text, more[i]) != NULL, "no %s", more[i]);
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config");
	TCase *tests = tcase_create("config");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, scratch_make, scratch_remove);
	tcase_add_test(tests, nothing);
	tcase_add_test(tests, every_key);
	tcase_add_test(tests, set_by_a_file_alone);
	tcase_add_test(tests, percent_of_memory);
	tcase_add_test(tests, selectors);
	tcase_add_test(tests, no_selectors);
	tcase_add_test(tests, selector_ends_where_it_ends);
	tcase_add_test(tests, ambiguous_uuid);
	tcase_add_test(tests, layers);
	tcase_add_test(tests, limits_are_a_number);
	tcase_add_test(tests, a_ceiling_is_a_limit);
	tcase_add_test(tests, hash_is_fnv_1a);
	tcase_add_test(tests, missing_files);
	tcase_add_test(tests, hami);
	tcase_add_test(tests, disabled);
	tcase_add_test(tests, first_of_two_variables);
	tcase_add_test(tests, misspelt_variable);
	tcase_add_test(tests, bad_variables);
	tcase_add_test(tests, ceiling);
	tcase_add_test(tests, ceiling_of_priority);
	tcase_add_test(tests, ceiling_of_users);
	tcase_add_test(tests, ceiling_of_growth);
	tcase_add_test(tests, ceiling_in_the_wrong_place);
	tcase_add_test(tests, ceiling_takes_eight_keys);
	tcase_add_test(tests, growth_below_the_limit);
	tcase_add_test(tests, growth_below_a_percentage);
	tcase_add_test(tests, bad_text);
	tcase_add_test(tests, override_does_not_rename);
	tcase_add_test(tests, traps);
	tcase_add_test(tests, windows_file);
	tcase_add_test(tests, no_files);
	tcase_add_test(tests, symlinks);
	tcase_add_test(tests, values_round_trip);
	tcase_add_test(tests, builtins_are_values);
	tcase_add_test(tests, old_spellings);
	tcase_add_test(tests, kai);
	tcase_add_test(tests, labels_of_a_pod);
	tcase_add_test(tests, ceiling_reserve);
	tcase_add_test(tests, check_value);
	tcase_add_test(tests, random_files);
	tcase_add_test(tests, example_file);
	tcase_add_test(tests, man_page);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
