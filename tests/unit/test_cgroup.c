/* SPDX-License-Identifier: MIT */
/* Memory cgroups as machines have them, each a tree of files in a scratch folder. */
#include "core/base/cgroup.h"
#include "core/config/config.h"
#include "core/budget/host_memory.c" /* host_memory_auto(), too */
#include "tests/unit/scratch.h"

#define MIB      (UINT64_C(1) << 20)
#define NONE_V1  "9223372036854771712\n"
#define V2_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT "33 32 0:29 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"

/* A level's files; NULL: the file is not there. */
static void level_2(const char *directory, const char *max, const char *high, const char *current)
{
	static const char *const names[] = {"memory.max", "memory.high", "memory.current"};
	const char *const texts[] = {max, high, current};
	char path[128];

	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "sys/fs/cgroup%s/%s", directory, names[i]);
		if (texts[i])
			scratch_put(path, texts[i]);
	}
}

static void level_1(const char *directory, const char *limit, const char *usage)
{
	char path[128];

	snprintf(path, sizeof path, "sys/fs/cgroup/memory%s/memory.limit_in_bytes", directory);
	scratch_put(path, limit);
	snprintf(path, sizeof path, "sys/fs/cgroup/memory%s/memory.usage_in_bytes", directory);
	scratch_put(path, usage);
}

static void process(const char *cgroups, const char *mounts)
{
	scratch_put("proc/self/cgroup", cgroups);
	scratch_put("proc/self/mountinfo", mounts);
	scratch_put("proc/meminfo", "MemTotal:  4194304 kB\nMemAvailable:  2097152 kB\n");
}

static struct cgroup_memory look(void)
{
	struct cgroup_memory memory;

	cgroup_memory(scratch_folder, &memory);
	return memory;
}

static void tightest_is(const struct cgroup_memory *memory, const char *directory)
{
	ck_assert_str_eq(memory->tightest, scratch_path(directory));
}

/* systemd: limits on the slice and on the service, the machine's own cgroup has none. */
START_TEST(slice_without_namespace)
{
	struct cgroup_memory m;

	process("0::/user.slice/user-1000.slice/run-7.scope\n",
	        "23 1 8:1 / / rw - ext4 /dev/sda1 rw\n" V2_MOUNT);
	scratch_put("sys/fs/cgroup/cgroup.procs", "");
	level_2("/user.slice", "max\n", "max\n", "209715200\n");
	level_2("/user.slice/user-1000.slice", "419430400\n", "max\n", "104857600\n");
	level_2("/user.slice/user-1000.slice/run-7.scope", "max\n", "max\n", "52428800\n");
	m = look();
	ck_assert_uint_eq(m.left, 300 * MIB);
	ck_assert_uint_eq(m.limit, 400 * MIB);
	ck_assert_uint_eq(m.used, 50 * MIB);
	tightest_is(&m, "sys/fs/cgroup/user.slice/user-1000.slice");
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 0), 150 * MIB);

	/* The service's own is tighter; then what throttles it is. */
	level_2("/user.slice/user-1000.slice/run-7.scope", "104857600\n", NULL, NULL);
	ck_assert_uint_eq(look().left, 50 * MIB);
	level_2("/user.slice/user-1000.slice/run-7.scope", NULL, "62914560\n", NULL);
	ck_assert_uint_eq(look().left, 10 * MIB);
	/* More is used than is allowed. */
	level_2("/user.slice/user-1000.slice/run-7.scope", NULL, "1048576\n", NULL);
	ck_assert_uint_eq(look().left, 0);
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 100 * MIB), 0);
}
END_TEST

/* Cache is given up before anybody is killed. */
START_TEST(file_cache_is_free)
{
	process("0::/a/b\n", V2_MOUNT);
	level_2("/a", "419430400\n", NULL, "314572800\n");
	level_2("/a/b", "max\n", NULL, "314572800\n");
	scratch_put(
	    "sys/fs/cgroup/a/memory.stat",
	    "anon 104857600\nfile 209715200\nshmem 52428800\ninactive_anon 1\nactive_anon 2\n"
	    "inactive_file 104857600\nactive_file 52428800\nunevictable 0\n");
	ck_assert_uint_eq(look().left, 250 * MIB);
	/* More cache than use: read at two times. */
	scratch_put("sys/fs/cgroup/a/memory.stat", "inactive_file 1073741824\n");
	ck_assert_uint_eq(look().left, 400 * MIB);
}
END_TEST

/* Slurm on version 1: the job's limit stands above the task. */
START_TEST(slurm_task_of_version_1)
{
	struct cgroup_memory m;

	process(
	    "11:freezer:/slurm/uid_1000/job_42/step_0\n10:cpuset:/slurm/uid_1000/job_42/step_0\n"
	    "9:name=systemd:/system.slice/slurmd.service\n"
	    "4:memory:/slurm/uid_1000/job_42/step_0/task_3\n",
	    "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
	    "35 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" V1_MOUNT);
	level_1("", NONE_V1, "8589934592\n");
	level_1("/slurm", NONE_V1, "2147483648\n");
	level_1("/slurm/uid_1000", NONE_V1, "2147483648\n");
	level_1("/slurm/uid_1000/job_42", "1073741824\n", "943718400\n");
	level_1("/slurm/uid_1000/job_42/step_0", "1073741824\n", "419430400\n");
	level_1("/slurm/uid_1000/job_42/step_0/task_3", NONE_V1, "209715200\n");
	m = look();
	ck_assert_uint_eq(m.left, 124 * MIB);
	ck_assert_uint_eq(m.used, 200 * MIB);
	tightest_is(&m, "sys/fs/cgroup/memory/slurm/uid_1000/job_42");
	scratch_put("sys/fs/cgroup/memory/slurm/uid_1000/job_42/memory.stat",
	            "cache 104857600\ninactive_file 4096\ntotal_inactive_file 52428800\n"
	            "total_active_file 10485760\n");
	ck_assert_uint_eq(look().left, 184 * MIB);
}
END_TEST

/* A container with a cgroup namespace sees its own cgroup as the root. */
START_TEST(container_with_namespace)
{
	struct cgroup_memory m;

	process("0::/\n", V2_MOUNT);
	level_2("", "536870912\n", "max\n", "134217728\n");
	m = look();
	ck_assert_uint_eq(m.left, 384 * MIB);
	ck_assert_uint_eq(m.used, 128 * MIB);
	tightest_is(&m, "sys/fs/cgroup");
	/* A process that was put elsewhere: what is mounted has to do. */
	process("0::/../other\n", V2_MOUNT);
	ck_assert_uint_eq(look().left, 384 * MIB);
	/* The mount came from outside of the namespace. */
	process("0::/\n", "30 23 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	ck_assert_uint_eq(look().left, 384 * MIB);
	process("0::/../other/x\n",
	        "30 23 0:26 /../other /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	level_2("/x", "20971520\n", "max\n", "0\n");
	ck_assert_uint_eq(look().left, 20 * MIB);
}
END_TEST

/* Docker without a namespace on version 1: the mount shows the container's own cgroup alone. */
START_TEST(container_without_namespace)
{
	process("4:memory:/docker/0123abcd/inner\n0::/\n",
	        "33 32 0:29 /docker/0123abcd /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
	        "34 32 0:29 /docker/0123 /other ro - cgroup cgroup rw,memory\n");
	level_1("", "209715200\n", "104857600\n");
	level_1("/inner", NONE_V1, "0\n");
	ck_assert_uint_eq(look().left, 100 * MIB);
	level_1("/inner", "10485760\n", "0\n");
	ck_assert_uint_eq(look().left, 10 * MIB);
}
END_TEST

/* Both at once: version 2 has no memory there, or has it instead of version 1. */
START_TEST(hybrid)
{
	process("4:cpu,memory:/job\n1:name=systemd:/job.service\n0::/job.service\n",
	        "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"
	        "33 32 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n"
	        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	level_1("", NONE_V1, "1048576\n");
	level_1("/job", "314572800\n", "104857600\n");
	scratch_put("sys/fs/cgroup/unified/job.service/cgroup.procs", "");
	ck_assert_uint_eq(look().left, 200 * MIB);
	level_2("/unified/job.service", "104857600\n", "max\n", "94371840\n");
	ck_assert_uint_eq(look().left, 10 * MIB);
}
END_TEST

/* The one of two mounts that shows more levels counts; names may hold blanks. */
START_TEST(several_mounts)
{
	process("0::/kube pods/pod/main\n",
	        "29 23 0:26 /kube\\040pods/pod/main /mnt/own rw - cgroup2 cgroup2 rw\n"
	        "30 23 0:26 /kube\\040pods /sys/fs/cgroup/all\\040here rw - cgroup2 cgroup2 rw\n"
	        "31 23 0:27 / /sys/fs/cgroup/bpf rw - bpf bpf rw\n");
	scratch_put("mnt/own/memory.max", "314572800\n");
	level_2("/all here/pod", "209715200\n", "max\n", "0\n");
	level_2("/all here/pod/main", "314572800\n", "max\n", "0\n");
	ck_assert_uint_eq(look().left, 200 * MIB);
}
END_TEST

START_TEST(what_cannot_be_read_limits_nothing)
{
	const uint64_t large = UINT64_C(1) << 60;
	char mounts[8192];
	struct cgroup_memory m = look();

	ck_assert_uint_eq(m.left, UINT64_MAX);
	ck_assert_uint_eq(m.used, UINT64_MAX);
	ck_assert_str_eq(m.tightest, "");
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 0), UINT64_MAX);
	ck_assert_uint_eq(host_memory_limit(42, false, 7), 42);
	ck_assert_uint_eq(host_memory_limit(42, true, 7), 42);
	ck_assert_uint_eq(host_memory_limit(large, false, 7), large);
	ck_assert_uint_lt(host_memory_limit(large, true, 7), large);

	process("0::/a/b\n", V2_MOUNT); /* no such folders */
	ck_assert_uint_eq(look().left, UINT64_MAX);
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 0), 1024 * MIB);
	level_2("/a", "", "nonsense\n", "-5\n");
	level_2("/a/b", "99999999999999999999999\n", "12x\n", "0\n");
	ck_assert_uint_eq(look().left, UINT64_MAX);
	/* A limit beside use that cannot be read. */
	level_2("/a", "10485760\n", NULL, "?\n");
	ck_assert_uint_eq(look().left, 10 * MIB);

	/* Lines that are cut short, empty, or longer than anything. */
	process("\n:\n0:\nmemory\n4:memory\n", "\n- - -\n1 2 3 / - cgroup2 c rw\n - cgroup2 \n");
	ck_assert_uint_eq(look().left, UINT64_MAX);
	memset(mounts, 'x', sizeof mounts);
	memcpy(mounts + sizeof mounts - 1 - strlen("\n" V2_MOUNT), "\n" V2_MOUNT,
	       strlen("\n" V2_MOUNT) + 1);
	process("0::/a/b\n", mounts);
	ck_assert_uint_eq(look().left, 10 * MIB);
	memset(mounts, '/', sizeof mounts - 1);
	mounts[0] = '0', mounts[1] = mounts[2] = ':';
	process(mounts, V2_MOUNT);
	ck_assert_uint_eq(look().left, UINT64_MAX);
}
END_TEST

/* --- what host_memory = auto comes to --- */

static void machine_has(uint64_t available)
{
	char text[128];

	snprintf(text, sizeof text, "MemTotal: %llu kB\nMemFree: 4 kB\nMemAvailable: %llu kB\n",
	         4096 * 1024ull, (unsigned long long)(available >> 10));
	scratch_put("proc/meminfo", text);
}

/* Takes 64 MiB as often as they are within the limit. Returns how much was taken. */
static uint64_t take_all(uint64_t available, uint64_t *left)
{
	const uint64_t each = 64 * MIB;
	uint64_t charged = 0;

	for (machine_has(available); available >= each; machine_has(available)) {
		if (charged + each > host_memory_auto(scratch_folder, charged))
			break;
		charged += each;
		available -= each;
	}
	*left = available;
	return charged;
}

START_TEST(many_small_requests_take_half)
{
	uint64_t left;

	process("0::/\n", V2_MOUNT);
	ck_assert_uint_eq(take_all(2048 * MIB, &left), 1024 * MIB);
	ck_assert_uint_eq(left, 1024 * MIB);
}
END_TEST

/* One job after the other takes half of what is left: the machine keeps its part of all. */
START_TEST(jobs_leave_the_machine_a_floor)
{
	const uint64_t floor = 4096 * MIB / 20;
	uint64_t left = 3072 * MIB;

	process("0::/\n", V2_MOUNT);
	for (int job = 0; job < 16; job++)
		take_all(left, &left);
	ck_assert_uint_ge(left, floor);
	ck_assert_uint_lt(left, floor + 64 * MIB);
	/* The program itself has taken the rest: what is held stays, and nothing comes to it. */
	machine_has(floor / 2);
	ck_assert_uint_le(host_memory_auto(scratch_folder, 512 * MIB), 512 * MIB);
}
END_TEST

/* Managed memory is charged when it is made, and is filled when it is used. */
START_TEST(what_is_filled_later_is_half_of_all_at_most)
{
	process("0::/\n", V2_MOUNT);
	machine_has(4000 * MIB);
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 2048 * MIB), 2048 * MIB);
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 3000 * MIB), 2048 * MIB);
}
END_TEST

/* What drivers take for memory of the host is in no cgroup: "left" does not fall. */
START_TEST(what_no_cgroup_counts_is_half_of_what_it_leaves)
{
	process("0::/job\n", V2_MOUNT);
	machine_has(3000 * MIB);
	level_2("/job", "629145600\n", "max\n", "209715200\n");
	for (uint64_t charged = 0; charged < 1000 * MIB; charged += 100 * MIB)
		ck_assert_uint_eq(host_memory_auto(scratch_folder, charged), 200 * MIB);
}
END_TEST

static void node_has(int node, const char *total, const char *free_bytes, const char *in_files)
{
	char path[64], text[256];

	snprintf(path, sizeof path, "sys/devices/system/node/node%d/meminfo", node);
	snprintf(text, sizeof text,
	         "Node %d MemTotal: %s kB\nNode %d MemFree: %s kB\nNode %d Active: 9 kB\n"
	         "Node %d Active(anon): 8 kB\nNode %d Inactive(file): %s kB\n",
	         node, total, node, free_bytes, node, node, node, in_files);
	scratch_put(path, text);
}

/* Who may use one of two sockets finds no memory on the other, which is others'. */
START_TEST(a_part_of_the_machine)
{
	process("0::/\n", V2_MOUNT);
	machine_has(4000 * MIB);
	scratch_put("sys/devices/system/node/has_normal_memory", "0-1\n");
	scratch_put("proc/self/status", "x:\nMems_allowed_list:\t0\n");
	node_has(0, "2097152", "2000000", "0");
	node_has(1, "2097152", "204800", "409600");
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 0), UINT64_C(1000000) << 10);
	scratch_put("proc/self/status", "x:\nMems_allowed_list:\t1\n");
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 0), 300 * MIB);
	/* Half of all that is there, at most. */
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 2048 * MIB), 1024 * MIB);
	scratch_put("proc/self/status", "x:\nMems_allowed_list:\t0-1\n");
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 0), 2000 * MIB);
	scratch_put("sys/devices/system/node/has_normal_memory", "0\n");
	scratch_put("proc/self/status", "x:\nMems_allowed_list:\t0\n");
	ck_assert_uint_eq(host_memory_auto(scratch_folder, 0), 2000 * MIB);
}
END_TEST

/* The process is moved to another cgroup while it runs. */
START_TEST(follows_a_move)
{
	process("0::/a\n", V2_MOUNT);
	level_2("/a", "104857600\n", "max\n", "0\n");
	level_2("/b", "209715200\n", "max\n", "0\n");
	ck_assert_uint_eq(look().left, 100 * MIB);
	scratch_put("proc/self/cgroup", "0::/b\n");
	ck_assert_uint_eq(look().left, 200 * MIB);
	level_2("/b", "10485760\n", NULL, NULL);
	ck_assert_uint_eq(look().left, 10 * MIB);
}
END_TEST

/* --- a GPU's memory --- */

static void dmem(const char *directory, const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof path, "sys/fs/cgroup%s/dmem.%s", directory, file);
	scratch_put(path, text);
}

#define GPU "nvidia/0000:3b:00.0/vidmem "

/* The least hard limit of all levels, the nearest soft one; a level without files is passed. */
START_TEST(limits_of_a_gpu)
{
	struct cgroup_device all[CGROUP_DEVICES];
	char own[CGROUP_PATH];

	process("0::/kube/pod/main\n", V2_MOUNT);
	dmem("", "max", GPU "8388608\n"); /* of the mount point, as in a container */
	dmem("/kube", "max", GPU "4194304\ndrm/0000:af:00.0/vram0 1048576\n");
	dmem("/kube", "min", GPU "3145728\n");
	dmem("/kube/pod/main", "max", GPU "max\n");
	dmem("/kube/pod/main", "current", GPU "65536\n");
	ck_assert_int_eq(cgroup_devices(scratch_folder, NULL, all), 2);
	ck_assert_str_eq(all[0].pci, "0000:3b:00.0");
	ck_assert_uint_eq(all[0].hard, 4 * MIB);
	ck_assert_str_eq(all[0].hard_from, scratch_path("sys/fs/cgroup/kube"));
	ck_assert_uint_eq(all[0].soft, 3 * MIB);
	ck_assert_str_eq(all[0].soft_from, scratch_path("sys/fs/cgroup/kube"));
	ck_assert_uint_eq(all[0].used, 65536);
	ck_assert_str_eq(all[1].pci, "0000:af:00.0");
	ck_assert_uint_eq(all[1].hard, MIB);
	ck_assert_uint_eq(all[1].soft, 0);
	ck_assert(cgroup_own(scratch_folder, own));
	ck_assert_str_eq(own, scratch_path("sys/fs/cgroup/kube/pod/main"));
	dmem("", "max", GPU "2097152\n");
	dmem("/kube/pod/main", "min", GPU "1048576\n");
	ck_assert_int_eq(cgroup_devices(scratch_folder, NULL, all), 2);
	ck_assert_uint_eq(all[0].hard, 2 * MIB);
	ck_assert_uint_eq(all[0].soft, MIB);
	/* A folder that is named, whatever cgroup the process is in. */
	ck_assert_int_eq(cgroup_devices("", scratch_path("sys/fs/cgroup/kube"), all), 2);
	ck_assert_uint_eq(all[0].hard, 2 * MIB);
	ck_assert_uint_eq(all[0].soft, 3 * MIB);
}
END_TEST

/* Lines that are no region of a GPU, other spellings, and more devices than are told apart. */
START_TEST(regions_of_a_gpu)
{
	struct cgroup_device all[CGROUP_DEVICES];
	char text[1024] = "", own[CGROUP_PATH];

	process("0::/a\n", V2_MOUNT);
	ck_assert_int_eq(cgroup_devices(scratch_folder, NULL, all), 0);
	dmem("/a", "max",
	     "\nvidmem 4\nnvidia/vidmem 4\nnvidia/0000:3b:00.0/stolen 4\n"
	     "nvidia/0000:3b:00.0/vidmem\nnvidia/much-too-long-for-any-bus-id/vidmem 4\n"
	     "nvidia/00000000:3B:00.0/vidmem 4096\n");
	ck_assert_int_eq(cgroup_devices(scratch_folder, NULL, all), 1);
	ck_assert_str_eq(all[0].pci, "00000000:3B:00.0");
	ck_assert_uint_eq(all[0].hard, 4096);
	for (int i = 0; i < CGROUP_DEVICES + 2; i++)
		sprintf(text + strlen(text), "nvidia/0000:%02x:00.0/vidmem %d\n", i, i);
	dmem("/a", "max", text);
	ck_assert_int_eq(cgroup_devices(scratch_folder, NULL, all), CGROUP_DEVICES);
	ck_assert_uint_eq(all[CGROUP_DEVICES - 1].hard, CGROUP_DEVICES - 1);
	process("", "");
	ck_assert(!cgroup_own(scratch_folder, own));
	ck_assert_int_eq(cgroup_devices(scratch_folder, NULL, all), 0);
}
END_TEST

#define POD_UID   "6e7e2c9a-1111-4222-8333-00000000abcd"
#define POD_MOUNT "/var/lib/kubelet/pods/" POD_UID
#define POD_SLICE "kubepods-besteffort-pod6e7e2c9a_1111_4222_8333_00000000abcd.slice"

/* The pod by the cgroup's path in both drivers' forms, and by a mount of the kubelet's. */
START_TEST(pod)
{
	static const struct {
		const char *cgroups, *mounts, *uid, *container;
	} cases[] = {
	    {"0::/kubepods.slice/kubepods-besteffort.slice/" POD_SLICE "/cri-containerd-0f.scope\n",
	     V2_MOUNT, POD_UID, ""},
	    {"4:memory:/kubepods/burstable/pod" POD_UID "/0f1e\n", V1_MOUNT, POD_UID, ""},
	    {"4:memory:/kubepods/pod0123456789abcdef0123456789abcdef/0f1e\n", V1_MOUNT,
	     "0123456789abcdef0123456789abcdef", ""},
	    {"0::/\n",
	     V2_MOUNT "31 23 8:1 " POD_MOUNT "/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
	              "32 23 8:1 " POD_MOUNT
	              "/containers/train/1f2e /dev/termination-log rw - ext4 "
	              "/dev/sda1 rw\n",
	     POD_UID, "train"},
	    {"0::/user.slice/podman-1234.scope\n", V2_MOUNT, "", ""},
	    {"0::/\n", "32 23 8:1 /pods/short/containers/ /x rw - ext4 /dev/sda1 rw\n", "", ""},
	};
	struct cgroup_pod found_pod;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		process(cases[i].cgroups, cases[i].mounts);
		cgroup_pod(scratch_folder, &found_pod);
		ck_assert_str_eq(found_pod.uid, cases[i].uid);
		ck_assert_str_eq(found_pod.container, cases[i].container);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("cgroup");
	TCase *tests = tcase_create("trees");

	tcase_add_checked_fixture(tests, scratch_make, scratch_remove);
	tcase_add_test(tests, slice_without_namespace);
	tcase_add_test(tests, file_cache_is_free);
	tcase_add_test(tests, slurm_task_of_version_1);
	tcase_add_test(tests, container_with_namespace);
	tcase_add_test(tests, container_without_namespace);
	tcase_add_test(tests, hybrid);
	tcase_add_test(tests, several_mounts);
	tcase_add_test(tests, what_cannot_be_read_limits_nothing);
	tcase_add_test(tests, many_small_requests_take_half);
	tcase_add_test(tests, jobs_leave_the_machine_a_floor);
	tcase_add_test(tests, what_is_filled_later_is_half_of_all_at_most);
	tcase_add_test(tests, what_no_cgroup_counts_is_half_of_what_it_leaves);
	tcase_add_test(tests, a_part_of_the_machine);
	tcase_add_test(tests, follows_a_move);
	tcase_add_test(tests, limits_of_a_gpu);
	tcase_add_test(tests, regions_of_a_gpu);
	tcase_add_test(tests, pod);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
