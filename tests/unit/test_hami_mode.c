/* SPDX-License-Identifier: MIT */
/* Standing in for HAMi-core: the settings of a container, the places of files, the defaults. */
#include "core/modules/vgpu/hami_mode.h"

#include <check.h>

#include "core/config/config.h"
#include "tests/unit/scratch.h"

static void setup(void)
{
	scratch_make();
	hami_mode_proc = strdup(scratch_path("proc"));
	hami_mode_begin(scratch_folder);
}

static void setup_of_device(void)
{
	scratch_make();
	hami_mode_proc = strdup(scratch_path("proc"));
	scratch_put("proc/self/ns/empty", "");
}

static char **last; /* what environment_of() has made */

static void forget(void)
{
	for (char **at = last; at && *at; at++)
		free(*at);
	free(last);
	last = NULL;
}

/* Makes an environment as copies of these texts, valid until the next. */
static char **environment_of(const char *const *texts)
{
	char **environment = calloc(8, sizeof(*environment));

	forget();
	for (int i = 0; texts[i]; i++)
		environment[i] = strdup(texts[i]);
	last = hami_mode_complete(environment);
	return last;
}
#define ENVIRONMENT(...) environment_of((const char *const[]){__VA_ARGS__, NULL})

START_TEST(what_the_container_was_given_is_asked_of_its_first_process)
{
	static const char given[] =
	    "HOME=/\0CUDA_DEVICE_MEMORY_LIMIT_0=64m\0CUDA_DEVICE_SM_LIMIT=30\0"
	    "CUDA_DEVICE_MEMORY_SHARED_CACHE=/usr/local/vgpu/5f.cache\0"
	    "CUDA_OVERSUBSCRIBE=true\0CUDA_VISIBLE_DEVICES=1\0";
	/* The first 256 KiB end within its last value. */
	static const char cut[] = "\0CUDA_DEVICE_SM_LIMIT=30\0CUDA_DEVICE_MEMORY_LIMIT_0=40960m";
	static char many[300 << 10];
	char **environment;

	scratch_put("proc/1/empty", "");
	scratch_write_bytes("proc/1/environ", given, sizeof(given) - 1);
	environment = ENVIRONMENT("CUDA_DEVICE_SM_LIMIT=50", "CUDA_OVERSUBSCRIBE=", "A=b",
	                          "CUDA_DEVICE_MEMORY_LIMIT_1=1g", "CUDA_DISABLE_CONTROL=yes",
	                          "SPILLWAY_MEMORY=2g");
	ck_assert_str_eq(config_variable(environment, "CUDA_DEVICE_MEMORY_LIMIT_0"), "64m");
	ck_assert_str_eq(config_variable(environment, "CUDA_DEVICE_SM_LIMIT"), "30");
	ck_assert_str_eq(config_variable(environment, "CUDA_OVERSUBSCRIBE"), "true");
	ck_assert_str_eq(config_variable(environment, "A"), "b");
	/* nothing that it was not given */
	ck_assert_ptr_null(config_variable(environment, "CUDA_DEVICE_MEMORY_LIMIT_1"));
	ck_assert_ptr_null(config_variable(environment, "CUDA_DISABLE_CONTROL"));
	ck_assert_ptr_null(config_variable(environment, "SPILLWAY_MEMORY"));
	ck_assert_str_eq(config_variable(environment, "CUDA_DEVICE_MEMORY_SHARED_CACHE"),
	                 "/usr/local/vgpu/5f.cache");
	ck_assert_ptr_null(config_variable(environment, "HOME"));
	ck_assert_ptr_null(config_variable(environment, "CUDA_VISIBLE_DEVICES"));
	/* Of so many that they are not read to the end none is taken in part. */
	memset(many, 'x', sizeof(many));
	many[0] = 'A';
	many[1] = '=';
	memcpy(many + (256 << 10) - sizeof(cut) + 3, cut, sizeof(cut));
	scratch_write_bytes("proc/1/environ", many, sizeof(many));
	environment = ENVIRONMENT("A=b");
	ck_assert_str_eq(config_variable(environment, "CUDA_DEVICE_SM_LIMIT"), "30");
	ck_assert_ptr_null(config_variable(environment, "CUDA_DEVICE_MEMORY_LIMIT_0"));
	/* One that was given nothing says nothing. */
	scratch_write("proc/1/environ", "HOME=/");
	environment = ENVIRONMENT("CUDA_DEVICE_SM_LIMIT=50");
	ck_assert_str_eq(config_variable(environment, "CUDA_DEVICE_SM_LIMIT"), "50");
}
END_TEST

START_TEST(a_device_of_ours_counts_in_each_process_of_its_container)
{
	static const char given[] = "HOME=/\0SPILLWAY_MEMORY=64MiB\0SPILLWAY_SHARE=50\0"
	                            "SPILLWAY_DRIVER=/a\0SPILLWAY_DEVICE=yes\0";
	static const struct {
		const char *namespace;
		size_t length;
		const char *limit;
	} places[] = {{"pid:[4026531836]", sizeof(given) - 1, NULL},
	              {"pid:[4026532201]", sizeof(given) - 5, NULL}, /* without the mark */
	              {"pid:[4026532201]", sizeof(given) - 1, "64MiB"}};

	scratch_put("proc/1/empty", "");
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		char **environment;

		unlink(scratch_path("proc/self/ns/pid"));
		ck_assert_int_eq(symlink(places[i].namespace, scratch_path("proc/self/ns/pid")), 0);
		scratch_write_bytes("proc/1/environ", given, places[i].length);
		environment = ENVIRONMENT("SPILLWAY_SHARE=30");
		ck_assert_pstr_eq(config_variable(environment, "SPILLWAY_MEMORY"), places[i].limit);
		ck_assert_str_eq(config_variable(environment, "SPILLWAY_SHARE"), "30");
		ck_assert_ptr_null(config_variable(environment, "SPILLWAY_DRIVER"));
	}
}
END_TEST

START_TEST(where_that_cannot_be_read_the_only_cache_beside_us_is_the_container_s)
{
	char **environment = ENVIRONMENT("A=b");
	const char *found;

	ck_assert_ptr_null(config_variable(environment, "CUDA_DEVICE_MEMORY_SHARED_CACHE"));
	scratch_write("5f.cache", "");
	found = config_variable(ENVIRONMENT("A=b"), "CUDA_DEVICE_MEMORY_SHARED_CACHE");
	ck_assert_str_eq(found, scratch_path("5f.cache"));
	environment = ENVIRONMENT("CUDA_DEVICE_MEMORY_LIMIT=64m");
	ck_assert_ptr_null(config_variable(environment, "CUDA_DEVICE_MEMORY_SHARED_CACHE"));
	scratch_write("6a.cache", "");
	environment = ENVIRONMENT("A=b");
	ck_assert_ptr_null(config_variable(environment, "CUDA_DEVICE_MEMORY_SHARED_CACHE"));
}
END_TEST

START_TEST(files_go_beside_the_cache_where_the_monitor_does_not_mind)
{
	char path[PATH_MAX], expected[PATH_MAX];

	snprintf(expected, sizeof(expected), "/tmp/vgpu/spillway-%u", geteuid());
	ck_assert(hami_mode_directory("/tmp/vgpu/5f.cache", path, sizeof(path)));
	ck_assert_str_eq(path, expected);
	ck_assert(!hami_mode_directory(scratch_path("5f.cache"), path, sizeof(path)));
	ck_assert(!hami_mode_directory(NULL, path, sizeof(path)));
	ck_assert(!hami_mode_directory("5f.cache", path, sizeof(path)));
}
END_TEST

static void teardown(void)
{
	forget();
	free((char *)hami_mode_proc);
	scratch_remove();
}

static const struct config_device device = {.ordinal = 0, .uuid = "GPU-1", .memory = 1 << 30};

static struct config_gpu resolve(struct config_sources sources)
{
	struct config *config;
	struct config_error error;
	struct config_gpu settings;

	ck_assert_msg(config_load(&sources, &config, &error) == 0, "%s", error.message);
	config_for_device(config, &device, &settings);
	config_release(config);
	return settings;
}
#define RESOLVED(...) resolve((struct config_sources){.stands_in = true, __VA_ARGS__})
#define ENVIRON(...)                                        \
	.environment = (char *const *)(const char *const[]) \
	{                                                   \
		__VA_ARGS__, NULL                           \
	}

START_TEST(memory_is_spilled_where_somebody_asked_for_it)
{
	const char *on = scratch_write("on.ini", "[gpu]\nspill = auto\n");

	ck_assert_uint_eq(RESOLVED(ENVIRON("A=b")).spill, SPILL_OFF);
	ck_assert_uint_eq(RESOLVED(ENVIRON("CUDA_OVERSUBSCRIBE=true")).spill, SPILL_AUTO);
	ck_assert_uint_eq(RESOLVED(ENVIRON("CUDA_OVERSUBSCRIBE=false")).spill, SPILL_OFF);
	ck_assert_uint_eq(RESOLVED(ENVIRON("CUDA_OVERSUBSCRIBE=perhaps")).spill, SPILL_OFF);
	ck_assert_uint_eq(RESOLVED(.file = on).spill, SPILL_AUTO);
	ck_assert_uint_eq(resolve((struct config_sources){ENVIRON("A=b")}).spill, SPILL_AUTO);
}
END_TEST

START_TEST(policy_and_priority_are_mapped)
{
	struct config_gpu settings = RESOLVED(ENVIRON("CUDA_DEVICE_SM_LIMIT=30"));

	ck_assert_uint_eq(settings.share, 30000);
	ck_assert_uint_eq(settings.share_policy, POLICY_CAP);
	ck_assert_uint_eq(settings.priority, PRIORITY_NORMAL);
	ck_assert_uint_eq(RESOLVED(.is_weighed = true).share_policy, POLICY_WEIGHT);
	settings = RESOLVED(.is_weighed = true, ENVIRON("GPU_CORE_UTILIZATION_POLICY=force"));
	ck_assert_uint_eq(settings.share_policy, POLICY_CAP);
	settings =
	    RESOLVED(ENVIRON("GPU_CORE_UTILIZATION_POLICY=DISABLE", "CUDA_DEVICE_SM_LIMIT=30"));
	ck_assert_uint_eq(settings.share, 100000);
	ck_assert_uint_eq(RESOLVED(ENVIRON("CUDA_TASK_PRIORITY=0")).priority, PRIORITY_NORMAL);
	ck_assert_uint_eq(RESOLVED(ENVIRON("CUDA_TASK_PRIORITY=1")).priority,
	                  PRIORITY_OPPORTUNISTIC);
	ck_assert_uint_eq(RESOLVED(ENVIRON("CUDA_TASK_PRIORITY=x")).priority, PRIORITY_NORMAL);
	ck_assert_uint_eq(
	    resolve((struct config_sources){ENVIRON("CUDA_TASK_PRIORITY=1")}).priority,
	    PRIORITY_NORMAL);
}
END_TEST

START_TEST(monitor_stand_above_the_environment_and_below_set)
{
	const char *monitor = "[gpu GPU-1]\nmemory = 1000\n";
	const char *set = scratch_write("override.ini", "[gpu]\nmemory = 3000\n");

	ck_assert_uint_eq(
	    RESOLVED(ENVIRON("CUDA_DEVICE_MEMORY_LIMIT=2000", "SPILLWAY_MEMORY=4000B"),
	             .monitor = monitor, .monitor_from = "5f.cache")
	        .memory,
	    1000);
	ck_assert_uint_eq(
	    RESOLVED(.monitor = monitor, .monitor_from = "5f.cache", .override_file = set).memory,
	    3000);
}
END_TEST

START_TEST(the_log_is_as_loud_as_hami_core_s)
{
	static const char *const levels[][2] = {{"0", "error"}, {"1", NULL},    {"3", "info"},
	                                        {"4", "debug"}, {"loud", NULL}, {"", NULL}};

	for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++) {
		setenv("LIBCUDA_LOG_LEVEL", levels[i][0], 1);
		ck_assert_pstr_eq(hami_mode_log(), levels[i][1]);
	}
}
END_TEST

START_TEST(the_region_s_version_is_a_setting)
{
	static const struct {
		const char *text;
		int minor;
	} texts[] = {{"1.2", 2}, {"1.1", 1}, {"off", -1}, {"2.0", 0}, {"1", 0}};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char text[64];
		struct config_sources sources = {.file = NULL};
		struct config *config;
		struct config_error error;

		snprintf(text, sizeof(text), "[job]\nregion = %s\n", texts[i].text);
		sources.file = scratch_write("region.ini", text);
		if (texts[i].minor == 0) {
			ck_assert_int_ne(config_load(&sources, &config, &error), 0);
			ck_assert_msg(strstr(error.message, "expected 1.2, 1.1 or off"), "%s",
			              error.message);
			continue;
		}
		ck_assert_int_eq(config_load(&sources, &config, &error), 0);
		ck_assert_int_eq(config_job(config)->region_minor, texts[i].minor);
		config_release(config);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("hami_mode");
	TCase *tests = tcase_create("hami_mode"), *given = tcase_create("given");

	tcase_add_checked_fixture(given, setup_of_device, teardown);
	tcase_add_test(given, a_device_of_ours_counts_in_each_process_of_its_container);
	suite_add_tcase(suite, given);

	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, what_the_container_was_given_is_asked_of_its_first_process);
	tcase_add_test(tests,
	               where_that_cannot_be_read_the_only_cache_beside_us_is_the_container_s);
	tcase_add_test(tests, files_go_beside_the_cache_where_the_monitor_does_not_mind);
	tcase_add_test(tests, memory_is_spilled_where_somebody_asked_for_it);
	tcase_add_test(tests, policy_and_priority_are_mapped);
	tcase_add_test(tests, monitor_stand_above_the_environment_and_below_set);
	tcase_add_test(tests, the_log_is_as_loud_as_hami_core_s);
	tcase_add_test(tests, the_region_s_version_is_a_setting);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
