/* SPDX-License-Identifier: MIT */
/*
 * Prometheus' text exposition format, version 0.0.4: one group of lines per metric, base units,
 * counters that end in _total.
 *
 * A label called "job" would be Prometheus' own, so the job is "spillway_job".
 */
#include "tools/formats/formats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/printable.h"
#include "core/config/config.h"
#include "tools/view/counters.h"
#include "core/config/config.h"
#include "tools/view/gpus.h"
#include "tools/view/unmanaged.h"
#include "tools/view/tool.h"

static void put_escaped(FILE *out, const char *name)
{
	char *shown = printable(text("%s", name));

	for (const char *c = shown; *c; c++) {
		if (*c == '\\' || *c == '"')
			putc('\\', out);
		putc(*c, out);
	}
	free(shown);
}

/* Prints the head of a metric. The part of a meaning after a ';' is about our own numbers. */
static void put_head(FILE *out, const char *name, const char *type, const char *meaning)
{
	fprintf(out, "# HELP %s %.*s\n# TYPE %s %s\n", name, (int)strcspn(meaning, ";"), meaning,
	        name, type);
}

static void put_job(FILE *out, const char *name, const struct row *row)
{
	fprintf(out, "%s{spillway_job=\"", name);
	put_escaped(out, row->typed);
	fprintf(out, "\",user=\"");
	put_escaped(out, row->user);
	putc('"', out);
}

static void put_device(FILE *out, const char *name, const struct row *row)
{
	put_job(out, name, row);
	fprintf(out, ",gpu=\"%d\",UUID=\"", row->gpu);
	put_escaped(out, row->device.uuid);
	putc('"', out);
}

/* Makes a name for Prometheus: "busy_ns" that is a sum becomes "spillway_busy_seconds_total". */
static void metric_name(const struct counter *counter, char *name, size_t size)
{
	static const struct {
		const char *ours, *base;
	} units[COUNTER_UNITS] = {
	    [COUNTER_bytes] = {"_bytes", "_bytes"},
	    [COUNTER_ns] = {"_ns", "_seconds"},
	    [COUNTER_time] = {NULL, "_seconds"},
	    [COUNTER_millipercent] = {NULL, "_ratio"},
	};
	const char *ours = units[counter->unit].ours, *base = units[counter->unit].base;
	size_t stem = strlen(counter->name), tail = ours ? strlen(ours) : 0;

	if (tail && stem > tail && strcmp(counter->name + stem - tail, ours) == 0)
		stem -= tail;
	snprintf(name, size, "spillway_%.*s%s%s", (int)stem, counter->name, base ? base : "",
	         counter->how == COUNTER_SUM ? "_total" : "");
}

/* Prints the value in base units, to the last digit. */
static void put_value(FILE *out, const struct counter *counter, uint64_t value)
{
	if (counter->unit == COUNTER_ns || counter->unit == COUNTER_time)
		fprintf(out, "} %" PRIu64 ".%09" PRIu64 "\n", value / 1000000000,
		        value % 1000000000);
	else if (counter->unit == COUNTER_millipercent)
		fprintf(out, "} %" PRIu64 ".%05" PRIu64 "\n", value / 100000, value % 100000);
	else
		fprintf(out, "} %" PRIu64 "\n", value);
}

/* Prints a code as a set of states of which at most one is 1. */
static void put_states(FILE *out, const struct counter *counter, const char *name,
                       const struct row *row, uint64_t value)
{
	static const char *const labels[COUNTER_UNITS] = {
	    [COUNTER_elastic] = "state", [COUNTER_provider] = "name", [COUNTER_placement] = "name",
	    [COUNTER_shrink] = "name",   [COUNTER_source] = "name",
	};
	const char *label = labels[counter->unit] ? labels[counter->unit] : "reason";

	for (uint64_t code = 1; counter_word(counter, code); code++) {
		put_device(out, name, row);
		fprintf(out, ",%s=\"%s\"} %d\n", label, counter_word(counter, code), value == code);
	}
}

static void prometheus_put_counter(FILE *out, const struct counter *counter,
                                   const struct rows *rows)
{
	char name[96];

	metric_name(counter, name, sizeof name);
	put_head(out, name, counter->how == COUNTER_SUM ? "counter" : "gauge", counter->meaning);
	for (int i = 0; i < rows->count; i++) {
		const struct row *row = &rows->row[i];
		uint64_t value;

		if (row->gpu < 0 || !row_counter(row, counter, &value))
			continue;
		if (counter_is_code(counter)) {
			put_states(out, counter, name, row, value);
			continue;
		}
		put_device(out, name, row);
		put_value(out, counter, value);
	}
}

static void put_jobs(FILE *out, const struct rows *rows)
{
	put_head(out, "spillway_unreadable_jobs", "gauge", "jobs whose state cannot be read");
	fprintf(out, "spillway_unreadable_jobs %d\n", rows->unreadable);
	put_head(out, "spillway_processes", "gauge", "live processes, 0 when the job has ended");
	for (int i = 0; i < rows->count; i++) {
		if (rows->row[i].gpu > 0)
			continue; /* once per job */
		put_job(out, "spillway_processes", &rows->row[i]);
		fprintf(out, "} %d\n", rows->row[i].processes);
	}
}

/*
 * Writes the name of a job's label as Prometheus has them, "label_team". Returns whether none
 * before it in the list comes to the same.
 */
static bool label_name(const char *labels, const char *label, char *name, size_t size)
{
	size_t length = strcspn(label, "=");
	char before[96];

	snprintf(name, size, "label_%.*s", (int)length, label);
	for (char *c = name; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *c))
			*c = '_';
	for (const char *other = labels; other < label; other += strcspn(other, ",") + 1) {
		label_name(other, other, before, sizeof before);
		if (strcmp(before, name) == 0)
			return false;
	}
	return true;
}

static bool is_of_pod(const char *key, size_t length)
{
	static const char *const keys[] = {"pod", "namespace", "container", "pod_uid"};

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (length == strlen(keys[i]) && strncmp(key, keys[i], length) == 0)
			return true;
	return false;
}

/* Prints the labels of the job. Those of a pod are there by dcgm-exporter's names, too. */
static void put_labels(FILE *out, const char *labels)
{
	for (const char *label = labels; *label;) {
		size_t length = strcspn(label, ","), key = strcspn(label, "=,");
		char name[96];

		if (key < length && label_name(labels, label, name, sizeof name)) {
			char *value = text("%.*s", (int)(length - key - 1), label + key + 1);

			fprintf(out, ",%s=\"", name);
			put_escaped(out, value);
			putc('"', out);
			if (is_of_pod(label, key)) {
				fprintf(out, ",%.*s=\"", (int)key, label);
				put_escaped(out, value);
				putc('"', out);
			}
			free(value);
		}
		label += length + (label[length] == ',');
	}
}

static void put_info(FILE *out, const struct rows *rows)
{
	put_head(out, "spillway_build_info", "gauge", "1, of the version that tells this");
	fprintf(out, "spillway_build_info{version=\"" SPILLWAY_VERSION "\"} 1\n");
	put_head(out, "spillway_job_info", "gauge",
	         "1, of each job with its state and its labels, each as label_NAME");
	for (int i = 0; i < rows->count; i++) {
		if (rows->row[i].gpu > 0)
			continue; /* once per job */
		put_job(out, "spillway_job_info", &rows->row[i]);
		fprintf(out, ",state=\"%s\"", rows->row[i].running ? "running" : "ended");
		put_labels(out, rows->row[i].labels);
		fprintf(out, "} 1\n");
	}
}

/* A GPU that NVML or a job knows. */
struct known_gpu {
	const char *uuid;
	uint64_t memory, used, jobs;
};

struct known_gpus {
	struct known_gpu *gpu;
	int count;
};

static struct known_gpu *prometheus_find_gpu(struct known_gpus *known, const char *uuid)
{
	for (int i = 0; i < known->count; i++)
		if (strcmp(known->gpu[i].uuid, uuid) == 0)
			return &known->gpu[i];
	known->gpu = grow(known->gpu, known->count, sizeof *known->gpu);
	known->gpu[known->count] = (struct known_gpu){.uuid = uuid};
	return &known->gpu[known->count++];
}

static void put_gpu(FILE *out, const char *name, const struct known_gpu *gpu, uint64_t bytes)
{
	fprintf(out, "%s{UUID=\"", name);
	put_escaped(out, gpu->uuid);
	fprintf(out, "\"} %" PRIu64 "\n", bytes);
}

static void put_known_gpus(FILE *out, const struct known_gpus *known)
{
	static const char memory[] = "spillway_gpu_memory_bytes",
	                  jobs[] = "spillway_gpu_jobs_bytes",
	                  others[] = "spillway_gpu_others_bytes";

	put_head(out, memory, "gauge", "memory of a GPU of this machine");
	for (int i = 0; i < known->count; i++)
		put_gpu(out, memory, &known->gpu[i], known->gpu[i].memory);
	put_head(out, jobs, "gauge", "of the GPU's memory: what all jobs here are charged for");
	for (int i = 0; i < known->count; i++)
		put_gpu(out, jobs, &known->gpu[i], known->gpu[i].jobs);
	put_head(
	    out, others, "gauge",
	    "of the GPU's memory: what is in use beyond that, as NVML tells, by programs that are "
	    "no job's and by the driver");
	for (int i = 0; i < known->count; i++) {
		const struct known_gpu *gpu = &known->gpu[i];

		if (gpu->used)
			put_gpu(out, others, gpu,
			        gpu->used > gpu->jobs ? gpu->used - gpu->jobs : 0);
	}
}

static void put_gpus(FILE *out, const struct rows *rows)
{
	struct known_gpus known = {0};
	struct gpus gpus;

	gpus_read(&gpus);
	for (int i = 0; i < gpus.count; i++) {
		struct known_gpu *gpu = prometheus_find_gpu(&known, gpus.gpu[i].uuid);

		gpu->memory = gpus.gpu[i].memory;
		gpu->used = gpus.gpu[i].used;
	}
	for (int i = 0; i < rows->count; i++) {
		const struct row *row = &rows->row[i];
		struct known_gpu *gpu =
		    row->gpu < 0 ? NULL : prometheus_find_gpu(&known, row->device.uuid);

		if (!gpu)
			continue;
		gpu->jobs += row->charged[SEGMENT_ON_DEVICE];
		if (!gpu->memory)
			gpu->memory = row->device.memory;
	}
	put_known_gpus(out, &known);
	free(known.gpu);
}

/*
 * Prints the programs without Spillway per GPU, where they are known. A program is counted from the
 * second look on: each page that is asked for is a look.
 */
static void put_unmanaged(FILE *out)
{
	static const char processes[] = "spillway_gpu_unmanaged_processes",
	                  bytes[] = "spillway_gpu_unmanaged_bytes",
	                  unjudged[] = "spillway_gpu_unchecked_processes";
	static struct unmanaged unmanaged;
	struct gpus gpus;

	put_head(out, "spillway_enforced", "gauge", "1 where root's file enforces limits");
	fprintf(out, "spillway_enforced %d\n", config_machine()->enforces);
	gpus_read(&gpus);
	unmanaged_look(&unmanaged);
	put_head(out, processes, "gauge", "processes on the GPU that Spillway is not in");
	for (int i = 0; unmanaged.is_known && i < gpus.count; i++) {
		struct known_gpu gpu = {.uuid = gpus.gpu[i].uuid};
		uint64_t count = 0;

		for (int p = 0; p < unmanaged.count; p++)
			count += strcmp(unmanaged.process[p].uuid, gpu.uuid) == 0;
		put_gpu(out, processes, &gpu, count);
	}
	put_head(out, bytes, "gauge", "memory of the GPU that they hold, where NVML knows it");
	for (int i = 0; unmanaged.is_known && i < gpus.count; i++) {
		struct known_gpu gpu = {.uuid = gpus.gpu[i].uuid};
		uint64_t held = 0;

		for (int p = 0; p < unmanaged.count; p++)
			if (strcmp(unmanaged.process[p].uuid, gpu.uuid) == 0 &&
			    unmanaged.process[p].bytes != UINT64_MAX)
				held += unmanaged.process[p].bytes;
		put_gpu(out, bytes, &gpu, held);
	}
	put_head(out, unjudged, "gauge",
	         "processes on GPUs of which is not known whether Spillway is in them");
	if (unmanaged.is_known)
		fprintf(out, "%s %d\n", unjudged, unmanaged.not_judged);
}

static void prometheus_put_bytes(FILE *out, const char *name, const char *meaning,
                                 const struct rows *rows, size_t offset)
{
	put_head(out, name, "gauge", meaning);
	for (int i = 0; i < rows->count; i++) {
		if (rows->row[i].gpu < 0)
			continue;
		put_device(out, name, &rows->row[i]);
		fprintf(out, "} %" PRIu64 "\n",
		        *(const uint64_t *)((const char *)&rows->row[i] + offset));
	}
}

static void put_host_limits(FILE *out, const struct rows *rows)
{
	const char *name = "spillway_host_limit_bytes";

	put_head(out, name, "gauge", "host memory the job may hold in place of device memory");
	for (int i = 0; i < rows->count; i++) {
		if (rows->row[i].gpu < 0 || !rows->row[i].host_limit)
			continue;
		put_device(out, name, &rows->row[i]);
		fprintf(out, "} %" PRIu64 "\n", rows->row[i].host_limit - 1);
	}
}

static void put_priorities(FILE *out, const struct rows *rows)
{
	const char *name = "spillway_priority";

	put_head(out, name, "gauge", "1 at what the job is to others on the GPU");
	for (int i = 0; i < rows->count; i++) {
		const struct sharing_seen *of = &rows->row[i].sharing;

		if (rows->row[i].gpu < 0 || !of->peers)
			continue;
		for (enum config_priority priority = PRIORITY_OPPORTUNISTIC;
		     priority <= PRIORITY_GUARANTEED; priority++) {
			put_device(out, name, &rows->row[i]);
			fprintf(out, ",priority=\"%s\"} %d\n", sharing_priority_word(priority),
			        of->priority == priority);
		}
	}
}

/* Prints bytes of each row whose job has a peer record. */
static void put_lending(FILE *out, const struct rows *rows, const char *name, const char *meaning,
                        size_t offset)
{
	put_head(out, name, "gauge", meaning);
	for (int i = 0; i < rows->count; i++) {
		const struct sharing_seen *of = &rows->row[i].sharing;

		if (rows->row[i].gpu < 0 || !of->tells_memory)
			continue;
		put_device(out, name, &rows->row[i]);
		fprintf(out, "} %" PRIu64 "\n", *(const uint64_t *)((const char *)of + offset));
	}
}

static void put_waits(FILE *out, const struct rows *rows)
{
	const char *name = "spillway_claim_wait";

	put_head(out, name, "gauge", "1 at why what the job has on the host waits for others");
	for (int i = 0; i < rows->count; i++) {
		const struct sharing_seen *of = &rows->row[i].sharing;

		if (rows->row[i].gpu < 0 || !of->tells_memory)
			continue;
		for (enum claim_wait why = CLAIM_NONE; why < CLAIM_WAITS; why++) {
			put_device(out, name, &rows->row[i]);
			fprintf(out, ",reason=\"%s\"} %d\n", claim_wait_name(why),
			        of->waits == why);
		}
	}
}

/* Prints millionths of each row of which they are known. */
static void put_ratios(FILE *out, const struct rows *rows, const char *name, const char *meaning,
                       bool (*read)(const struct sharing_seen *of, double *ppm))
{
	put_head(out, name, "gauge", meaning);
	for (int i = 0; i < rows->count; i++) {
		double ppm;

		if (rows->row[i].gpu < 0 || !read(&rows->row[i].sharing, &ppm))
			continue;
		put_device(out, name, &rows->row[i]);
		fprintf(out, "} %.6f\n", ppm / 1e6);
	}
}

static void put_apart(FILE *out, const struct rows *rows)
{
	put_head(out, "spillway_share_apart", "gauge",
	         "1 while jobs of other users use the GPU and take no turns with the job, so that "
	         "its share may not hold");
	for (int i = 0; i < rows->count; i++) {
		const struct row *row = &rows->row[i];

		if (row->gpu < 0 || row->is_of_page || !row->running)
			continue;
		put_device(out, "spillway_share_apart", row);
		fprintf(out, "} %d\n", row->is_apart);
	}
}

static bool read_loss(const struct sharing_seen *of, double *ppm)
{
	*ppm = of->loss_ppm;
	return of->is_measured;
}

static bool read_error(const struct sharing_seen *of, double *ppm)
{
	*ppm = of->loss_error_ppm;
	return of->is_measured;
}

static bool read_takes(const struct sharing_seen *of, double *ppm)
{
	*ppm = of->takes_ppm;
	return of->takes_ppm != 0;
}

void format_prometheus(FILE *out, const struct rows *rows)
{
	put_info(out, rows);
	put_jobs(out, rows);
	put_gpus(out, rows);
	put_unmanaged(out);
	prometheus_put_bytes(out, "spillway_memory_bytes", "memory of the GPU", rows,
	                     offsetof(struct row, device.memory));
	prometheus_put_bytes(
	    out, "spillway_device_charged_bytes",
	    "device memory the job is charged for, that of killed processes included", rows,
	    offsetof(struct row, charged[SEGMENT_ON_DEVICE]));
	prometheus_put_bytes(
	    out, "spillway_host_charged_bytes",
	    "host memory the job is charged for, that of killed processes included", rows,
	    offsetof(struct row, charged[SEGMENT_ON_HOST]));
	put_host_limits(out, rows);
	put_priorities(out, rows);
	put_ratios(out, rows, "spillway_loss_ratio",
	           "part of its speed that a job loses by opportunistic ones", read_loss);
	put_ratios(out, rows, "spillway_loss_error_ratio", "by how much that may be wrong",
	           read_error);
	put_ratios(out, rows, "spillway_takes_ratio",
	           "part that a job takes of the gaps that it may have", read_takes);
	put_lending(out, rows, "spillway_entitled_bytes",
	            "memory of the GPU that the job may call its own beside others",
	            offsetof(struct sharing_seen, entitled));
	put_lending(out, rows, "spillway_lent_bytes",
	            "memory that the job gave to others and has on the host",
	            offsetof(struct sharing_seen, lent));
	put_lending(out, rows, "spillway_borrowed_bytes",
	            "memory of the GPU that the job holds beyond what it is entitled to",
	            offsetof(struct sharing_seen, borrowed));
	put_lending(out, rows, "spillway_claimed_bytes",
	            "memory of the GPU that the job claims from others",
	            offsetof(struct sharing_seen, claimed));
	put_waits(out, rows);
	prometheus_put_bytes(out, "spillway_device_orphaned_bytes",
	                     "device memory among it that was exported and freed, and that other "
	                     "processes have open",
	                     rows, offsetof(struct row, orphaned));
	put_apart(out, rows);
	for (const struct counter *counter = counters; counter->name; counter++)
		prometheus_put_counter(out, counter, rows);
}
