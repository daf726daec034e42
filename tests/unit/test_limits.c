/* SPDX-License-Identifier: MIT */
/*
 * Limits from outside as the module has them: of a cgroup's files and of NVML, and the reserve. The
 * files lie in a scratch folder, and NVML is a function here.
 */
#include "core/budget/in_use.h"
#include "core/budget/terms.h"
#include "core/config/config.h"
#include "core/job/module.h"
#include "core/job/process.h"
#include "tests/unit/devices.h"
#include "tests/unit/fake_driver.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test_job.h"

#define MIB (UINT64_C(1) << 20)

enum { LEAST_LOOK_MS = 100 };

extern const struct module module_limits;

static struct {
	uint64_t soft, hard, used;
	char cgroup[512]; /* that was asked for last */
	bool is_there;
} nvml;

static bool nvml_limits(const struct config_device *device, const char *cgroup, uint64_t *soft,
                        uint64_t *hard)
{
	(void)device;
	snprintf(nvml.cgroup, sizeof(nvml.cgroup), "%s", cgroup);
	*soft = nvml.soft;
	*hard = nvml.hard;
	return nvml.is_there;
}

static bool nvml_used(const struct config_device *device, uint64_t *used)
{
	(void)device;
	*used = nvml.used;
	return true;
}

static void nvml_open(const struct config_device *device)
{
	(void)device;
}

/* Writes a cgroup's file of the first device. */
static void dmem(const char *path, const char *text)
{
	char line[128];

	snprintf(line, sizeof(line), "nvidia/%s/vidmem %s\n",
	         this_job.devices.device[0].id.pci_bus_id, text);
	scratch_put(path, line);
}

static struct config *load(const char *system)
{
	struct config_error error;
	struct config *config = NULL;
	struct config_sources sources = {.system_file = scratch_write("system.ini", system)};

	module_limits.add_source(&sources);
	ck_assert_msg(config_load(&sources, &config, &error) == 0, "%s", error.message);
	return config;
}

static void start(void)
{
	scratch_make();
	fake_driver_reset(256 * MIB);
	ck_assert_int_eq(device_set_fill(&this_job.devices, test_job(), "test"), 0);
	setenv("SPILLWAY_CGROUP", scratch_path("slice/pod/leaf"), 1);
	in_use_limits_by_nvml = nvml_limits;
	in_use_by_nvml = nvml_used;
	in_use_open_nvml = nvml_open;
	nvml.is_there = false;
}

static int look(void)
{
	int look_ms = 1000;

	module_limits.tick(&look_ms);
	return look_ms;
}

static struct config_sources found(void)
{
	struct config_sources sources = {0};

	module_limits.add_source(&sources);
	return sources;
}

static uint64_t told(int word)
{
	return ledger_read(this_job.devices.device[0].ledger).outside[word];
}

/* The least dmem.max of all levels, the nearest dmem.min; a level without files is passed. */
START_TEST(levels_of_a_cgroup)
{
	struct config_sources sources;

	dmem("slice/dmem.max", "100663296");
	dmem("slice/pod/leaf/dmem.max", "max");
	dmem("slice/pod/leaf/dmem.min", "67108864");
	module_limits.prepare(NULL);
	sources = found();
	ck_assert_uint_eq(sources.limit_count, 1);
	ck_assert_uint_eq(sources.limits[0].hard, 96 * MIB);
	ck_assert_uint_eq(sources.limits[0].soft, 64 * MIB);
	ck_assert_str_eq(sources.limits[0].hard_from, scratch_path("slice/dmem.max"));
	ck_assert_str_eq(sources.limits[0].soft_from, scratch_path("slice/pod/leaf/dmem.min"));
	this_job.config.now = load("");
	ck_assert_int_eq(look(), LEAST_LOOK_MS);
	ck_assert_uint_eq(told(OUTSIDE_HARD), 96 * MIB + 1);
	ck_assert_uint_eq(told(OUTSIDE_SOFT), 64 * MIB);
	ck_assert_uint_eq(told(OUTSIDE_SOURCES), limit_source_pack(SOURCE_PARENT, SOURCE_CGROUP));
}
END_TEST

/* A reader keeps the finding it has while the next one is read. */
START_TEST(a_limit_that_changes)
{
	struct config_sources before;

	dmem("slice/pod/leaf/dmem.max", "67108864");
	module_limits.prepare(NULL);
	this_job.config.now = load("");
	before = found();
	dmem("slice/pod/leaf/dmem.max", "33554432");
	look();
	ck_assert_uint_eq(found().limits[0].hard, 32 * MIB);
	ck_assert_uint_eq(before.limits[0].hard, 64 * MIB);
	ck_assert_uint_eq(told(OUTSIDE_HARD), 32 * MIB + 1);
	remove(scratch_path("slice/pod/leaf/dmem.max"));
	ck_assert_int_eq(look(), 1000);
	ck_assert_uint_eq(found().limit_count, 0);
	ck_assert_uint_eq(told(OUTSIDE_SOURCES), SOURCE_NONE);
	ck_assert_uint_eq(told(OUTSIDE_HARD), 0);
}
END_TEST

/* The lower one of both counts; NVML is asked by the cgroup's folder, and no sooner than opened. */
START_TEST(nvml_beside_files)
{
	nvml.is_there = true;
	nvml.soft = 24 * MIB;
	nvml.hard = 128 * MIB;
	module_limits.prepare(NULL);
	this_job.config.now = load("");
	look();
	ck_assert_str_eq(nvml.cgroup, "");
	module_limits.started();
	dmem("slice/pod/leaf/dmem.max", "67108864");
	look();
	ck_assert_str_eq(nvml.cgroup, scratch_path("slice/pod/leaf"));
	ck_assert_uint_eq(found().limit_count, 1);
	ck_assert_uint_eq(found().limits[0].hard, 64 * MIB);
	ck_assert_uint_eq(found().limits[0].soft, 24 * MIB);
	ck_assert_uint_eq(told(OUTSIDE_SOURCES), limit_source_pack(SOURCE_CGROUP, SOURCE_NVML));
	nvml.hard = 32 * MIB;
	look();
	ck_assert_uint_eq(found().limits[0].hard, 32 * MIB);
	ck_assert_ptr_nonnull(strstr(found().limits[0].hard_from, "(NVML)"));
	remove(scratch_path("slice/pod/leaf/dmem.max"));
	look();
	ck_assert_uint_eq(found().limit_count, 1);
	nvml.soft = 0;
	nvml.hard = UINT64_MAX; /* as NVML says that there is none */
	look();
	ck_assert_uint_eq(found().limit_count, 0);
}
END_TEST

/* What is missing is given up; of memory beyond the reserve a job alone has all. */
START_TEST(reserve)
{
	const struct config_gpu settings = {.memory = CONFIG_UNLIMITED, .share = 100000};
	struct device *device = &this_job.devices.device[0];

	device_apply(device, &settings);
	module_limits.prepare(NULL);
	this_job.config.now = load("[ceiling]\nreserve = 64MiB\n");
	ck_assert_int_eq(device_charge_taken(device, 100 * MIB), 0);
	nvml.used = 100 * MIB; /* 156 are free, 92 beyond the reserve */
	ck_assert_int_eq(look(), LEAST_LOOK_MS);
	ck_assert_uint_eq(yield_above(device), 192 * MIB);
	ck_assert_uint_eq(told(OUTSIDE_RESERVE), 64 * MIB);
	nvml.used = 222 * MIB; /* 34 are free, 30 are missing */
	look();
	ck_assert_uint_eq(yield_above(device), 70 * MIB);
	config_release(this_job.config.now);
	this_job.config.now = load("");
	ck_assert_int_eq(look(), 1000);
	ck_assert_uint_eq(yield_above(device), UINT64_MAX);
	ck_assert_uint_eq(told(OUTSIDE_RESERVE), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("limits");
	TCase *tests = tcase_create("limits");

	tcase_add_checked_fixture(tests, start, scratch_remove);
	tcase_add_test(tests, levels_of_a_cgroup);
	tcase_add_test(tests, a_limit_that_changes);
	tcase_add_test(tests, nvml_beside_files);
	tcase_add_test(tests, reserve);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
