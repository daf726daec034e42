/* SPDX-License-Identifier: MIT */
/*
 * Modules: the parts of Spillway that the kernel runs without.
 *
 * kernel  all of core/ but core/modules
 * module  a folder of core/modules with one descriptor, module_NAME
 * hook    a function in the descriptor that the kernel calls on one occasion; NULL: none
 * table   the descriptors that are built in; the build makes it from MODULES (core/rules.mk)
 *
 * The kernel reaches a module by its hooks, and by actions that the module adds
 * (core/registry/actions.h). It includes no header of core/modules and uses no symbol of it. For
 * example, `make MODULES="steps vgpu"` builds two modules in, and `make MODULES=` the kernel alone.
 * Hooks are called in the order of the table, which is alphabetical.
 */
#ifndef SPILLWAY_JOB_MODULE_H
#define SPILLWAY_JOB_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cuda/driver.h"

struct config_sources;
struct device;
struct job_config;

struct module {
	const char *name;
	/* The object was loaded as libvgpu.so from this folder, in place of HAMi-core. */
	void (*hami_mode)(const char *folder);
	/* Before the first layer of the configuration is read; may change the environment. */
	void (*prepare)(struct job_config *config);
	/* Each time the layers are read, on any thread. */
	void (*add_source)(struct config_sources *sources);
	/*
	 * On the thread that starts the job, before its settings take effect. A module that lacks
	 * memory clears *has_started, and the process takes no part in its job.
	 */
	void (*start)(bool *has_started);
	/* Likewise, once they have taken effect. this_job.segment is NULL where it did not join. */
	void (*started)(void);
	/*
	 * On the helper, each time it wakes. It is to wake again after *look_ms at the latest,
	 * which the hook may lower. Makes no driver call.
	 */
	void (*tick)(int *look_ms);
	/* As the process exits: threads of the program that wait go on. Then the rest, at last. */
	void (*let_go)(void);
	void (*stop)(void);
	/* In a forked child, which takes part in nothing. Takes no lock and frees nothing. */
	void (*forked)(void);
	/* Before the driver destroys a context, and once it is gone. */
	void (*leave_context)(CUcontext context);
	void (*left_context)(CUcontext context);
	/*
	 * On the sharing thread (core/job/sharing.h), once it has copied the peer records. It is to
	 * run again after *again_ns at the latest, which the hook may lower.
	 */
	void (*share)(uint64_t now_ns, uint64_t *again_ns);
	/*
	 * On the helper, while the sharing thread rests: sets *has_news where that thread is to go
	 * on. Makes no driver call. Without it a rest ends by time or by shortage_call() alone.
	 */
	void (*look)(uint64_t now_ns, bool *has_news);
	/* Before the resources of a device are listed. */
	void (*list)(struct device *device);
	/* Another part needs to know where steps of the program end on a device, or no more. */
	void (*want_steps)(int ordinal, bool is_wanted);
};

/* The table; NULL ends it. */
extern const struct module *const modules[];

/* Calls a hook of each module that has it: modules_call(tick, &look_ms). */
#define modules_call(hook, ...)                                           \
	do {                                                              \
		for (const struct module *const *at = modules; *at; at++) \
			if ((*at)->hook)                                  \
				(*at)->hook(__VA_ARGS__);                 \
	} while (0)

#endif
