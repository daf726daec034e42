/* SPDX-License-Identifier: MIT */
/*
 * Random sequences of set, pause, resume and edits by hand, right or wrong, over processes of this
 * version and of the versions 6 and 7 of the segment. At each point pause and resume work. A change
 * that set accepted is in force. A refused one left the file byte for byte as it was. A seed is
 * printed with each failure; SEED=N runs that one alone.
 *
 * The processes are imitations that load as the shim of their version does. The tool's own
 * functions make the files, their changes and the reversals.
 */
#include "core/base/deadline.h"
#include "core/config/config.h"

#include "tests/unit/scratch.h"

enum { SEEDS = 12, STEPS = 60, VERSION_NOW = 8 };

static uint64_t seed_state;

static unsigned int dice(unsigned int sides)
{
	seed_state = seed_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(seed_state >> 33) % sides;
}

#define ONE_OF(list) (list)[dice(sizeof(list) / sizeof(*(list)))]

/* A job of one process, and what it follows. */
static struct world {
	uint32_t version;
	uint64_t seed;
	int step;
	const char *ini, *override, *pause, *aside;
	struct config *now; /* what is in force in the process */
	bool is_refusing;   /* it takes not all that stands there */
} world;

static const struct config_device gpu = {
    .ordinal = 0, .uuid = "GPU-1", .pci_bus_id = "0000:01:00.0", .memory = 1 << 30};

static struct deadline *patience(void)
{
	static struct deadline deadline;

	deadline = (struct deadline){.patience_ns = 20000000000};
	return &deadline;
}

static struct config_gpu in_force(void)
{
	struct config_gpu settings;

	config_for_device(world.now, &gpu, &settings);
	return settings;
}

#define EXPECT(what)                                                  \
	ck_assert_msg(what, "seed %llu, step %d, version %u: " #what, \
	              (unsigned long long)world.seed, world.step, (unsigned)world.version)

/* --- the process --- */

static char *read_or_null(const char *path)
{
	return access(path, F_OK) == 0 ? scratch_read(path) : NULL;
}

/* Returns whether a process of the version refuses the file for a key that came later. */
static bool has_later_key(void)
{
	char *text = read_or_null(world.override);
	bool has = false;

	for (int key = 0; text && key < CONFIG_KEY_COUNT; key++) {
		char line[64];

		snprintf(line, sizeof line, "\n%s ", config_key_name((enum config_key)key));
		has |= (config_key_since((enum config_key)key) > world.version ||
		        strcmp(config_key_name_for((enum config_key)key, world.version),
		               config_key_name((enum config_key)key)) != 0) &&
		       strstr(text, line);
	}
	free(text);
	return has;
}

/*
 * Loads as a process of before does: all of it or nothing. Contradictions between layers, which are
 * warnings today, were errors then.
 */
static struct config *load_before(void)
{
	const struct config_sources sources = {.file = world.ini, .override_file = world.override};
	struct config_error error;
	struct config *loaded = NULL;

	if (config_load(&sources, &loaded, &error) != 0)
		return NULL;
	if (has_later_key() || strstr(config_job(loaded)->warnings, "does not rise by itself")) {
		config_release(loaded);
		return NULL;
	}
	return loaded;
}

static void follow(void)
{
	struct config_error error, complaint;
	struct config_pause pause;
	const struct config_sources sources = {.file = world.ini,
	                                       .override_file = world.override,
	                                       .pause = &pause,
	                                       .complaint = &complaint,
	                                       .last_good = world.now,
	                                       .devices = &gpu,
	                                       .device_count = 1};
	struct config *loaded;

	if (world.version < VERSION_NOW) {
		loaded = load_before();
		world.is_refusing = !loaded;
	} else {
		config_pause_read(world.pause, "", &pause);
		EXPECT(config_load(&sources, &loaded, &error) == 0);
		world.is_refusing = config_job(loaded)->override_is_refused;
	}
	if (!loaded)
		return;
	config_release(world.now);
	world.now = loaded;
}

/* --- the tool --- */

static bool change(const char *selector, const char *key, const char *value)
{
	const char *keys[] = {key, NULL};
	const char *const values[] = {value, NULL};
	struct config_change c = {.path = world.override,
	                          .selector = selector,
	                          .keys = keys,
	                          .values = values,
	                          .devices = &gpu,
	                          .device_count = 1};
	struct config_error error;
	int key_number = 0;
	bool done;

	while (key_number < CONFIG_KEY_COUNT &&
	       strcmp(config_key_name((enum config_key)key_number), key) != 0)
		key_number++;
	if (key_number < CONFIG_KEY_COUNT &&
	    config_key_since((enum config_key)key_number) > world.version)
		return false;
	if (key_number < CONFIG_KEY_COUNT)
		keys[0] = config_key_name_for((enum config_key)key_number, world.version);
	if (config_override_change(&c, patience(), &error) != 0)
		return false;
	follow();
	done = !world.is_refusing;
	if (!done)
		EXPECT(config_override_take_back(&c, patience(), &error) == 0);
	follow();
	free(c.before);
	return done;
}

static bool is_paused_before(void)
{
	return access(world.aside, F_OK) == 0;
}

static void pause_job(bool evict)
{
	struct config_error error;
	const struct config_pause pause = {.evict = evict, .by = "test", .at_ns = 1};

	if (world.version == VERSION_NOW) {
		EXPECT(config_pause_write(world.pause, &pause) == 0);
		follow();
		return;
	}
	EXPECT(config_override_mend(world.override, world.version, patience(), &error) >= 0);
	follow();
	if (!is_paused_before())
		scratch_write("aside", in_force().share == 100000 ? "100" : "50");
	EXPECT(change("0", "share", "0") && change("", "share", "0"));
	EXPECT(!evict || change("", "evict", "yes"));
}

static void resume_job(void)
{
	struct config_error error;

	if (world.version == VERSION_NOW) {
		unlink(world.pause);
		follow();
		return;
	}
	EXPECT(config_override_mend(world.override, world.version, patience(), &error) >= 0);
	follow();
	unlink(world.aside);
	EXPECT(change("", "evict", NULL) && change("", "share", NULL) &&
	       change("0", "share", NULL));
}

/* --- what happens --- */

static void set_something(void)
{
	static const char *const wanted[][2] = {
	    {"memory", "60MiB"},           {"memory", "40MiB"},     {"memory", "nonsense"},
	    {"memory_max", "50MiB"},       {"memory_max", "80MiB"}, {"memory_max", "0"},
	    {"priority", "opportunistic"}, {"priority", "highest"}, {"placement", "heat"},
	    {"shrink", "gentle"},          {"host_memory", "1GiB"}, {"turn_length", "5s"},
	    {"idle_yield", "never"},       {"warp_drive", "yes"},   {"memory", "unlimited"},
	    {"spill_after", "3"},
	};
	static const char *const selectors[] = {"", "0", "GPU-1", "", "", "gpu", "01:00.0"};
	const char *const *pair = wanted[dice(sizeof wanted / sizeof *wanted)];
	const char *selector = ONE_OF(selectors);
	char *before = read_or_null(world.override), *after;
	bool done = change(selector, pair[0], pair[1]);
	int key = 0;

	after = read_or_null(world.override);
	if (!done) {
		EXPECT(!before == !after);
		EXPECT(!before || strcmp(before, after) == 0);
	} else {
		while (strcmp(config_key_name((enum config_key)key), pair[0]) != 0)
			key++;
		/* unless a section that is more specific says otherwise */
		if (!strstr(after, "[gpu 0]") && !strstr(after, "[gpu GPU-1]") &&
		    !strstr(after, "[gpu 01:00.0]"))
			EXPECT(strcmp(config_written(world.now, &gpu, (enum config_key)key),
			              pair[1]) == 0);
	}
	free(before);
	free(after);
}

static void edit_ini(void)
{
	static const char *const texts[] = {
	    "[gpu]\nmemory_max = 50MiB\n",
	    "[gpu]\nmemory = 30MiB\nshare = 50\n",
	    "",
	    "[gpu]\nmemory = 100MiB\nmemory_max = 120MiB\n",
	    /* Wrong: a process of before with such a file can be told nothing. */
	    "[gpu]\nmemory = 8Gx\n",
	    "[gpus]\n",
	    "[gpu]\nmemory = 20MiB\nmemory_max = 10MiB\n",
	    "\001\002",
	};
	char *before = scratch_read(world.ini);
	struct config *loaded;

	scratch_write("job.ini", texts[dice(world.version < VERSION_NOW ? 4 : 8)]);
	/* Nor one whose file contradicts what was set. */
	if (world.version < VERSION_NOW) {
		loaded = load_before();
		if (!loaded)
			scratch_write("job.ini", before);
		config_release(loaded);
	}
	free(before);
	follow();
}

static void edit_override(void)
{
	static const char *const texts[] = {
	    "[gpu]\nmemory = 45MiB\n",
	    "[gpu]\nmemory = 45MiB\nwarp_drive = yes\n",
	    "[gpu]\nmemory = 45MiB\npriority = opportunistic\n",
	    "nonsense",
	    "[[[[\n=\n\n[gpu\nshare 5\n",
	    "[gpu]\nshare = 200\n[job]\nname = other\n",
	    "[gpu]\nmemory = 9\nmemory = 8\n  indented\n",
	};

	if (world.version < VERSION_NOW && is_paused_before())
		return; /* who writes over its pause has resumed it */
	scratch_write("override.ini", ONE_OF(texts));
	follow();
}

/* At each point: pause holds, evict too, and resume gives back what was before. */
static void expect_pause_and_resume(void)
{
	bool was_paused = in_force().share == 0;
	struct config_gpu before, after;

	if (was_paused)
		resume_job();
	EXPECT(in_force().share != 0);
	before = in_force();
	pause_job(dice(2));
	EXPECT(in_force().share == 0);
	pause_job(true);
	EXPECT(in_force().share == 0 && in_force().evict);
	EXPECT(in_force().memory == before.memory || world.version < VERSION_NOW);
	resume_job();
	after = in_force();
	EXPECT(after.share != 0 && !after.evict);
	EXPECT(memcmp(&before, &after, sizeof before) == 0 || world.version < VERSION_NOW);
	if (was_paused)
		pause_job(false);
}

static void run(uint32_t version, uint64_t seed)
{
	world = (struct world){.version = version, .seed = seed};
	seed_state = seed * 1000 + version;
	world.ini = strdup(scratch_write("job.ini", ""));
	world.override = strdup(scratch_path("override.ini"));
	world.pause = strdup(scratch_path("pause.ini"));
	world.aside = strdup(scratch_path("aside"));
	unlink(world.override);
	unlink(world.pause);
	unlink(world.aside);
	follow();
	for (world.step = 0; world.step < STEPS; world.step++) {
		switch (dice(6)) {
		case 0:
		case 1:
		case 2:
			set_something();
			break;
		case 3:
			edit_ini();
			break;
		case 4:
			edit_override();
			break;
		default:
			if (in_force().share == 0)
				resume_job();
			else
				pause_job(dice(2));
			break;
		}
		if (dice(3) == 0)
			expect_pause_and_resume();
	}
	config_release(world.now);
	free((char *)world.ini);
	free((char *)world.override);
	free((char *)world.pause);
	free((char *)world.aside);
}

static void run_seeds(uint32_t version)
{
	const char *given = getenv("SEED");
	uint64_t first = given ? strtoull(given, NULL, 10) : 1;

	for (uint64_t seed = first; seed < first + (given ? 1 : SEEDS); seed++)
		run(version, seed);
}

START_TEST(this_version)
{
	run_seeds(VERSION_NOW);
}
END_TEST

START_TEST(version_7)
{
	run_seeds(7);
}
END_TEST

START_TEST(version_6)
{
	run_seeds(6);
}
END_TEST

START_TEST(a_pause_of_another_boot_or_of_nonsense)
{
	const char *path = scratch_write("pause.ini", "[pause]\nboot = a\nevict = yes\nby = ada\n");
	struct config_pause pause;

	config_pause_read(path, "a", &pause);
	ck_assert(pause.is_on && pause.evict);
	ck_assert_str_eq(pause.by, "ada");
	config_pause_read(path, "b", &pause);
	ck_assert(!pause.is_on);
	ck_assert_uint_eq(pause.hash, 0);
	config_pause_read(scratch_write("pause.ini", "\001nonsense\n["), "b", &pause);
	ck_assert(pause.is_on && !pause.evict);
	config_pause_read(scratch_path("none"), "b", &pause);
	ck_assert(!pause.is_on);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("settings");
	TCase *tests = tcase_create("settings");

	/* where the state directory is, too, and where a rename waits for no disk */
	setenv("TMPDIR", "/dev/shm", 1);
	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, scratch_make, scratch_remove);
	tcase_add_test(tests, this_version);
	tcase_add_test(tests, version_7);
	tcase_add_test(tests, version_6);
	tcase_add_test(tests, a_pause_of_another_boot_or_of_nonsense);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
