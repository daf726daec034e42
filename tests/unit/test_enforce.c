/* SPDX-License-Identifier: MIT */
/*
 * The machine's file enforced: no layer above it chooses a name, a file or a switch, or gets more.
 */
#include "core/config/config.h"

#include "tests/unit/scratch.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define ENVIRON(...) ((char *const *)(const char *const[]){__VA_ARGS__, NULL})
#define GIB          (UINT64_C(1) << 30)

static const struct config_device gpu = {0, "GPU-5ac31234-aaaa-bbbb-cccc-0123456789ab",
                                         "0000:3B:00.0", 16 * GIB};

/* Loads an enforced file, with these lines more, under an environment and an override. */
static struct config *load(const char *lines, char *const *environment, const char *override)
{
	struct config_sources sources = {.environment = environment};
	struct config *config = NULL;
	struct config_error error;
	char text[1024];

	snprintf(text, sizeof(text), "[ceiling]\nenforce = yes\n%s", lines);
	sources.system_file = scratch_write("system.ini", text);
	if (override)
		sources.override_file = scratch_write("job.override.ini", override);
	ck_assert_msg(config_load(&sources, &config, &error) == 0, "%s", error.message);
	return config;
}

static const char *refused(const char *text)
{
	static struct config_error error;
	struct config_sources sources = {.system_file = scratch_write("system.ini", text)};
	struct config *config;

	ck_assert_int_eq(config_load(&sources, &config, &error), -EINVAL);
	return strstr(error.message, "system.ini");
}

static struct config_gpu settings_of(struct config *config)
{
	struct config_gpu settings;

	config_for_device(config, &gpu, &settings);
	config_release(config);
	return settings;
}

static const char *user_job(void)
{
	static char name[32];

	snprintf(name, sizeof(name), "user-%u", (unsigned)geteuid());
	return name;
}

START_TEST(the_name_is_the_machines)
{
	char *const *named = ENVIRON("SPILLWAY_JOB=mine", "SPILLWAY_LABELS=a=b");
	static const struct {
		const char *lines, *name; /* NULL: the user's */
	} cases[] = {
	    {"", NULL},
	    {"per = user\n", NULL},
	    {"per = job\n", NULL},
	    {"per = user\n[job]\nname = slurm-7\n", NULL},
	    {"[job]\nname = slurm-7\n", "slurm-7"},
	    {"per = job\n[job]\nname = slurm-7\n", "slurm-7"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct config *config = load(cases[i].lines, named, NULL);
		const char *name = cases[i].name ? cases[i].name : user_job();

		ck_assert(config_job(config)->enforces);
		ck_assert_str_eq(config_job(config)->name, name);
		ck_assert_str_eq(config_job(config)->labels, "a=b");
		ck_assert_str_eq(config_job(config)->warnings,
		                 "SPILLWAY_JOB = mine: not followed: " CONFIG_SYSTEM_FILE
		                 " is enforced");
		config_release(config);
	}
}
END_TEST

START_TEST(what_the_machine_says_of_a_job_stands)
{
	struct config *config =
	    load("[job]\nlabels = pod=p\nnvml = yes\n",
	         ENVIRON("SPILLWAY_LABELS=pod=q", "SPILLWAY_NVML=no"), "[job]\nlabels = pod=r\n");

	ck_assert_str_eq(config_job(config)->labels, "pod=p");
	ck_assert(config_job(config)->nvml);
	config_release(config);
}
END_TEST

START_TEST(nobody_switches_it_off)
{
	struct config *config =
	    load("", ENVIRON("SPILLWAY_DISABLE=yes", "CUDA_DISABLE_CONTROL=true"), NULL);

	ck_assert(!config_job(config)->is_disabled);
	ck_assert_ptr_nonnull(strstr(config_job(config)->warnings, "SPILLWAY_DISABLE = yes: not "));
	ck_assert_ptr_nonnull(
	    strstr(config_job(config)->warnings, "CUDA_DISABLE_CONTROL = true: not "));
	config_release(config);
}
END_TEST

START_TEST(nobody_chooses_a_file)
{
	struct config_sources sources = {
	    .system_file = scratch_write("system.ini", "[ceiling]\nenforce = yes\n"),
	    .file = "/nowhere"};
	struct config *config;
	struct config_error error;

	ck_assert_int_eq(config_load(&sources, &config, &error), 0);
	config_release(config);
	sources.system_file = scratch_write("system.ini", "[ceiling]\nenforce = no\n");
	ck_assert_int_eq(config_load(&sources, &config, &error), -ENOENT);
}
END_TEST

/* What the file sets is the most of it, unless its ceiling says more. */
START_TEST(nobody_gets_more)
{
	char *const *greedy = ENVIRON("SPILLWAY_MEMORY=12GiB", "SPILLWAY_MEMORY_MAX=16GiB",
	                              "SPILLWAY_HOST_MEMORY=unlimited", "SPILLWAY_SHARE=100",
	                              "SPILLWAY_SHARE_POLICY=weight", "SPILLWAY_SHARE_WINDOW=1h",
	                              "SPILLWAY_DEMOTE_DEADLINE=1h", "SPILLWAY_SHRINK=gentle");
	const char *machine = "[gpu]\nmemory = 8GiB\nhost_memory = 4GiB\nshare = 30\n"
	                      "demote_deadline = 1s\n";
	const char *override = "[gpu]\nmemory = unlimited\nshare_policy = weight\n";
	struct config_gpu settings = settings_of(load(machine, greedy, override));

	ck_assert_uint_eq(settings.memory, 8 * GIB);
	ck_assert_uint_eq(settings.memory_max, 8 * GIB); /* which is not at all */
	ck_assert_uint_eq(settings.host_memory, 4 * GIB);
	ck_assert_uint_eq(settings.share, 30000);
	ck_assert_uint_eq(settings.share_policy, POLICY_CAP);
	ck_assert_uint_eq(settings.share_window, 100000000);
	ck_assert_uint_eq(settings.demote_deadline, 1000000000);
	ck_assert_uint_eq(settings.shrink, SHRINK_GENTLE); /* by which nobody gets more */

	settings = settings_of(
	    load("memory = 10GiB\nshare = 50\n[gpu]\nmemory = 8GiB\nshare = 30\n", greedy, NULL));
	ck_assert_uint_eq(settings.memory, 10 * GIB);
	ck_assert_uint_eq(settings.share, 50000);
}
END_TEST

/* A ceiling on the limit holds for its growth, also where the file itself lets that rise. */
START_TEST(no_limit_grows_above_the_ceiling)
{
	const char *machine = "memory = 8GiB\n"
	                      "[gpu]\nmemory = 4GiB\nmemory_max = 16GiB\n";
	struct config_gpu settings = settings_of(load(machine, ENVIRON("A=b"), NULL));

	ck_assert_uint_eq(settings.memory, 4 * GIB);
	ck_assert_uint_eq(settings.memory_max, 8 * GIB);
	settings = settings_of(load("memory = 8GiB\nmemory_max = 12GiB\n"
	                            "[gpu]\nmemory_max = 16GiB\nmemory = 4GiB\n",
	                            ENVIRON("A=b"), NULL));
	ck_assert_uint_eq(settings.memory_max, 12 * GIB);
}
END_TEST

/* A job may keep its allocations off the host. Memory that a lowered limit sends there goes. */
START_TEST(a_lowered_limit_has_a_place_to_move_to)
{
	static const struct {
		const char *lines, *asked;
		uint64_t host_memory, of_moves;
	} cases[] = {
	    {"[gpu]\nhost_memory = 4GiB\n", "0", 0, 4 * GIB},
	    {"[gpu]\nhost_memory = 4GiB\n", "1GiB", GIB, 4 * GIB},
	    {"[gpu]\nhost_memory = 4GiB\n", "unlimited", 4 * GIB, 4 * GIB},
	    {"[gpu]\nmemory = 8GiB\n", "0", 0, CONFIG_AUTO},
	    {"host_memory = 9GiB\n", "0", 0, 9 * GIB},
	    {"host_memory = 9GiB\n[gpu]\nhost_memory = 4GiB\n", "6GiB", 6 * GIB, 6 * GIB},
	    {"host_memory = 9GiB\n[gpu]\nhost_memory = 4GiB\n", "0", 0, 4 * GIB},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char asks[64];
		struct config_gpu settings;

		snprintf(asks, sizeof(asks), "SPILLWAY_HOST_MEMORY=%s", cases[i].asked);
		settings = settings_of(load(cases[i].lines, ENVIRON(asks), NULL));
		ck_assert_uint_eq(settings.host_memory, cases[i].host_memory);
		ck_assert_uint_eq(settings.host_limit_of_moves, cases[i].of_moves);
	}
}
END_TEST

/* Where nothing is enforced what a user asks for is what the user has. */
START_TEST(a_free_job_chooses_its_host_limit)
{
	const struct config_sources sources = {.environment = ENVIRON("SPILLWAY_HOST_MEMORY=0")};
	struct config *config;
	struct config_error error;
	struct config_gpu settings;

	ck_assert_int_eq(config_load(&sources, &config, &error), 0);
	settings = settings_of(config);
	ck_assert_uint_eq(settings.host_limit_of_moves, 0);
}
END_TEST

/* What "auto" comes to is known when memory is asked for: until then both stand. */
START_TEST(nobody_has_more_on_the_host_than_auto)
{
	char *const *greedy = ENVIRON("SPILLWAY_HOST_MEMORY=900GiB");
	struct config_gpu settings = settings_of(load("", greedy, NULL));

	ck_assert_uint_eq(settings.host_memory, 900 * GIB);
	ck_assert_uint_eq(settings.host_at_most_auto, 1);
	settings = settings_of(load("", ENVIRON("SPILLWAY_HOST_MEMORY=unlimited"), NULL));
	ck_assert_uint_eq(settings.host_memory, CONFIG_AUTO);
	ck_assert_uint_eq(settings.host_at_most_auto, 0);
	settings = settings_of(load("host_memory = 1000GiB\n", greedy, NULL));
	ck_assert_uint_eq(settings.host_memory, 900 * GIB);
	ck_assert_uint_eq(settings.host_at_most_auto, 0);
	settings = settings_of(load("[gpu]\nhost_memory = 4GiB\n", greedy, NULL));
	ck_assert_uint_eq(settings.host_memory, 4 * GIB);
	ck_assert_uint_eq(settings.host_at_most_auto, 0);
}
END_TEST

START_TEST(less_may_be_asked_for)
{
	const char *machine = "[gpu]\nmemory = 8GiB\nmemory_max = 12GiB\nshare = 30\n";
	struct config_gpu settings =
	    settings_of(load(machine, ENVIRON("SPILLWAY_MEMORY=2GiB"), NULL));

	ck_assert_uint_eq(settings.memory, 2 * GIB);
	ck_assert_uint_eq(settings.memory_max, 12 * GIB);
	settings = settings_of(load(machine, ENVIRON("A=b"), "[gpu]\nshare = 10\n"));
	ck_assert_uint_eq(settings.share, 10000);
	ck_assert_uint_eq(settings.memory, 8 * GIB);
}
END_TEST

/* What the file does not mention is what it is for everybody. */
START_TEST(nobody_ranks_higher)
{
	char *const *greedy = ENVIRON("SPILLWAY_PRIORITY=guaranteed", "SPILLWAY_TURN=whole",
	                              "SPILLWAY_IDLE_YIELD=never", "SPILLWAY_SLOWDOWN=0.1%");
	struct config *config = load("", greedy, NULL);
	struct config_gpu settings;

	ck_assert_ptr_nonnull(strstr(config_job(config)->warnings,
	                             "priority = guaranteed: not followed: " CONFIG_SYSTEM_FILE
	                             " is enforced and says nothing of it"));
	settings = settings_of(config);
	ck_assert_uint_eq(settings.priority, PRIORITY_NORMAL);
	ck_assert_uint_eq(settings.turn, TURN_FINE);
	ck_assert_uint_eq(settings.idle_yield, 30000000000);
	ck_assert_uint_eq(settings.slowdown, 2000);
	settings = settings_of(load("priority = guaranteed\n", greedy, NULL));
	ck_assert_uint_eq(settings.priority, PRIORITY_GUARANTEED);
	settings = settings_of(load("", ENVIRON("SPILLWAY_PRIORITY=opportunistic"), NULL));
	ck_assert_uint_eq(settings.priority, PRIORITY_OPPORTUNISTIC);
}
END_TEST

/* One GPU's part is no other GPU's. */
START_TEST(each_gpu_has_its_own_most)
{
	const char *machine = "[gpu]\nmemory = 4GiB\n[gpu 0000:3b:00.0]\nmemory = 8GiB\n";
	struct config_device other = {1, "GPU-77", "0000:af:00.0", 16 * GIB};
	struct config *config = load(machine, ENVIRON("SPILLWAY_MEMORY=unlimited"), NULL);
	struct config_gpu settings;

	config_for_device(config, &other, &settings);
	ck_assert_uint_eq(settings.memory, 4 * GIB);
	ck_assert_uint_eq(settings_of(config).memory, 8 * GIB);
}
END_TEST

START_TEST(without_enforcing_all_is_as_it_was)
{
	struct config_sources sources = {
	    .system_file = scratch_write("system.ini", "[ceiling]\nper = user\nrequired = yes\n"
	                                               "[gpu]\nmemory = 4GiB\n"),
	    .environment = ENVIRON("SPILLWAY_JOB=mine", "SPILLWAY_DISABLE=yes",
	                           "SPILLWAY_MEMORY=8GiB", "SPILLWAY_SHARE_POLICY=weight")};
	struct config *config;
	struct config_error error;

	ck_assert_int_eq(config_load(&sources, &config, &error), 0);
	ck_assert(!config_job(config)->enforces);
	ck_assert(config_job(config)->is_disabled);
	ck_assert_str_eq(config_job(config)->name, "mine");
	ck_assert_str_eq(config_job(config)->warnings, "");
	ck_assert_uint_eq(settings_of(config).memory, 8 * GIB);
}
END_TEST

/*
 * Every key of [gpu]: no value that a user may choose, in whatever place, lets the job hold more
 * than the machine's file says, or keep it for longer when that says less. A key without a row
 * fails the test. `machines`: what the file says; `values`: what a user tries.
 */
static const struct weakening {
	enum config_key key;
	const char *machines, *values;
	enum { CAPPED, FIXED, HARMLESS } how;
	const char *why; /* it is harmless */
} weakenings[] = {
    {CONFIG_KEY_memory, "8GiB", "12GiB 100% unlimited", CAPPED, NULL},
    {CONFIG_KEY_memory_max, "8GiB", "12GiB 100% unlimited", CAPPED, NULL},
    {CONFIG_KEY_host_memory, "4GiB", "900GiB auto unlimited", CAPPED, NULL},
    {CONFIG_KEY_share, "30", "31 100", CAPPED, NULL},
    {CONFIG_KEY_share_policy, "cap", "weight", FIXED, NULL},
    {CONFIG_KEY_share_window, "100ms", "1h", FIXED, NULL},
    {CONFIG_KEY_priority, "opportunistic", "normal guaranteed", CAPPED, NULL},
    {CONFIG_KEY_slowdown, "2", "0.1% 100", FIXED, NULL},
    {CONFIG_KEY_turn, "fine", "whole", CAPPED, NULL},
    {CONFIG_KEY_turn_length, "30s", "1h", CAPPED, NULL},
    {CONFIG_KEY_idle_yield, "30s", "1h never", CAPPED, NULL},
    {CONFIG_KEY_steps, "auto", "on off", HARMLESS, "a limit rises only to memory_max"},
    {CONFIG_KEY_spill, "auto", "vmm managed pinned off", FIXED, NULL},
    {CONFIG_KEY_spill_after, "auto", "0 9", HARMLESS, "it refuses, or spills within host_memory"},
    {CONFIG_KEY_reported_memory, "limit", "limit+host", HARMLESS, "it is only told"},
    {CONFIG_KEY_mixed, "auto", "whole", HARMLESS, "both tiers are charged"},
    {CONFIG_KEY_placement, "auto", "balanced heat", HARMLESS, "which, not how much"},
    {CONFIG_KEY_survey, "auto", "always", HARMLESS, "measures, and moves nothing by itself"},
    {CONFIG_KEY_demote_deadline, "100ms", "1h", FIXED, NULL},
    {CONFIG_KEY_shrink, "fast", "gentle", HARMLESS, "it ends, in twice the time"},
    {CONFIG_KEY_deferred_free, "no", "yes", HARMLESS, "it is charged until it is given back"},
    {CONFIG_KEY_pin_new, "auto", "yes no", FIXED, NULL},
    {CONFIG_KEY_evict, "yes", "no", FIXED, NULL},
};
enum { WEAKENINGS = sizeof(weakenings) / sizeof(*weakenings) };

/* Loads the machine's value, with the user's in the environment or the job's override. */
static struct config *load_weakened(const struct weakening *row, const char *value,
                                    bool by_override)
{
	const char *name = config_key_name(row->key);
	char machine[128], variable[128] = "SPILLWAY_", override[128];
	char *environment[] = {variable, NULL};
	size_t length = strlen(variable);

	snprintf(machine, sizeof(machine), "[gpu]\n%s%s = %s\n",
	         row->key == CONFIG_KEY_memory_max ? "memory = 4GiB\n" : "", name, row->machines);
	for (const char *c = name; *c; c++)
		variable[length++] = (char)toupper((unsigned char)*c);
	snprintf(variable + length, sizeof(variable) - length, "=%s", value);
	snprintf(override, sizeof(override), "[gpu]\n%s = %s\n", name, value);
	if (by_override)
		*variable = '_';
	return load(machine, environment, by_override ? override : NULL);
}

static void try_weakening(const struct weakening *row, const char *value, bool by_override)
{
	struct config *config = load_weakened(row, value, by_override);
	bool is_told = strstr(config_job(config)->warnings, config_key_name(row->key)) != NULL;
	struct config_gpu settings;
	char got[64];

	config_for_device(config, &gpu, &settings);
	config_format(row->key, settings.of[row->key], got, sizeof(got));
	if (row->how == HARMLESS)
		ck_assert_msg(strcasecmp(got, value) == 0 || settings.of[row->key] == 0,
		              "%s = %s: it is %s", config_key_name(row->key), value, got);
	else
		ck_assert_msg(strcmp(got, row->machines) == 0 ||
		                  (row->how == CAPPED && strstr(got, row->machines) == got),
		              "%s = %s: it is %s", config_key_name(row->key), value, got);
	/* `evict = no` is what is built in; nothing is refused by not following it. */
	ck_assert_msg(is_told == (row->how != HARMLESS && row->key != CONFIG_KEY_evict),
	              "%s = %s: told: %s", config_key_name(row->key), value,
	              config_job(config)->warnings);
	config_release(config);
}

START_TEST(no_key_weakens_a_limit)
{
	bool has_row[CONFIG_KEY_COUNT] = {false};

	for (int i = 0; i < WEAKENINGS; i++) {
		char values[64], *value, *rest;

		has_row[weakenings[i].key] = true;
		ck_assert((weakenings[i].how == HARMLESS) == (weakenings[i].why != NULL));
		snprintf(values, sizeof(values), "%s", weakenings[i].values);
		for (value = strtok_r(values, " ", &rest); value;
		     value = strtok_r(NULL, " ", &rest)) {
			try_weakening(&weakenings[i], value, false);
			try_weakening(&weakenings[i], value, true);
		}
	}
	for (int key = 0; key < CONFIG_KEY_COUNT; key++)
		ck_assert_msg(has_row[key], "%s has no row: may a user weaken a limit by it?",
		              config_key_name((enum config_key)key));
}
END_TEST

START_TEST(bad_values)
{
	ck_assert_str_eq(refused("[ceiling]\nenforce = maybe\n"),
	                 "system.ini:2: enforce = maybe: expected no or yes");
	ck_assert_str_eq(refused("[ceiling]\nrequired =\n"),
	                 "system.ini:2: required = : expected no or yes");
	ck_assert_str_eq(refused("[ceiling]\n\nper = group\n"),
	                 "system.ini:3: per = group: expected job or user");
	ck_assert_str_eq(
	    refused("[ceiling]\nenforce = yes\nenforce = no\n"),
	    "system.ini:3: enforce = no: already set in line 2; expected each key once");
	ck_assert_str_eq(refused("[ceiling]\nenforced = yes\n"),
	                 "system.ini:2: enforced: unknown key in [ceiling], did you mean enforce?; "
	                 "expected one of memory, memory_max, host_memory, share, "
	                 "priority, turn, turn_length, idle_yield, enforce, "
	                 "per, required, state_dir, guaranteed, reserve");
	ck_assert_str_eq(refused("[ceiling]\nenforce = yes\nstate_dir = here\n"),
	                 "system.ini:3: state_dir = here: expected an absolute path of at most 400 "
	                 "characters");
	ck_assert_str_eq(refused("[gpu]\nrequired = yes\n"),
	                 "system.ini:2: required: belongs to [ceiling], not to [gpu]");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("enforce");
	TCase *tests = tcase_create("enforce");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, scratch_make, scratch_remove);
	tcase_add_test(tests, the_name_is_the_machines);
	tcase_add_test(tests, what_the_machine_says_of_a_job_stands);
	tcase_add_test(tests, nobody_switches_it_off);
	tcase_add_test(tests, nobody_chooses_a_file);
	tcase_add_test(tests, no_limit_grows_above_the_ceiling);
	tcase_add_test(tests, a_lowered_limit_has_a_place_to_move_to);
	tcase_add_test(tests, a_free_job_chooses_its_host_limit);
	tcase_add_test(tests, nobody_has_more_on_the_host_than_auto);
	tcase_add_test(tests, nobody_gets_more);
	tcase_add_test(tests, nobody_ranks_higher);
	tcase_add_test(tests, less_may_be_asked_for);
	tcase_add_test(tests, each_gpu_has_its_own_most);
	tcase_add_test(tests, without_enforcing_all_is_as_it_was);
	tcase_add_test(tests, no_key_weakens_a_limit);
	tcase_add_test(tests, bad_values);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
