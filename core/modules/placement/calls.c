/* SPDX-License-Identifier: MIT */
/*
 * The module's start: the table of what the kernel calls, hooks, and the actions by which a survey
 * is told of launches and steps. Rules: runs inside the user's process.
 */
#include <pthread.h>

#include "core/base/log.h"
#include "core/job/launch.h"
#include "core/job/module.h"
#include "core/memory/arena/heat.h"
#include "core/modules/placement/parameters.h"
#include "core/modules/placement/placement.h"
#include "core/modules/placement/survey.h"
#include "core/modules/placement/touch.h"
#include "core/registry/actions.h"

static int calls_before_launch(void *cookie, void *subject)
{
	struct job_launch *launch = subject;
	struct survey_mark mark =
	    survey_before(launch->device->id.ordinal, launch->context, launch->stream);

	(void)cookie;
	launch->survey = mark.survey;
	launch->survey_launch = mark.launch;
	return CUDA_SUCCESS;
}

static int calls_after_launch(void *cookie, void *subject)
{
	const struct job_launch *launch = subject;
	bool is_graph = launch->kind == LAUNCH_GRAPH;
	int cancel;

	(void)cookie;
	if (!launch->survey)
		return CUDA_SUCCESS;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	survey_after(&(struct survey_mark){launch->survey, launch->survey_launch},
	             &(struct survey_launch){
	                 .key = launch->at.key,
	                 .stream = launch->stream,
	                 .graph = is_graph ? (CUgraphExec)(uintptr_t)launch->function : NULL,
	                 .function = (CUfunction)(uintptr_t)launch->function,
	                 .parameters = launch->parameters,
	                 .extra = launch->extra,
	                 .is_launched = launch->result == CUDA_SUCCESS,
	                 .is_blind = launch->kind == LAUNCH_BLIND});
	pthread_setcancelstate(cancel, NULL);
	return CUDA_SUCCESS;
}

/* Has launches on a device told to the survey from now on, and steps looked for, or no more. */
static void calls_survey(int ordinal, bool is_surveyed, bool has_steps)
{
	/* The measurement begins after the slot. */
	static const struct action before = {ACTION_MEASURES, "survey", calls_before_launch, NULL},
	                           after = {ACTION_STATISTICS, "survey", calls_after_launch, NULL};
	static struct job_watch watch = {.before = &before, .after = &after};

	modules_call(want_steps, ordinal, has_steps);
	if (!job_launches_watch(&watch, 1ull << ordinal, is_surveyed))
		log_once(LOG_WARNING, "out of memory: kernels are not measured, and memory is "
		                      "placed by its last use");
}

static int calls_step_ended(void *cookie, void *subject)
{
	(void)cookie;
	survey_step_ended(((struct device *)subject)->id.ordinal);
	return CUDA_SUCCESS;
}

static void placement_start(bool *has_started)
{
	static struct placement_calls table;
	static const struct action step = {ACTION_RESOURCES, "survey", calls_step_ended, NULL};

	used_add_calls(&table);
	touch_add_calls(&table);
	parameters_add_calls(&table);
	placement_add_calls(&table);
	survey_serve(calls_survey);
	atomic_store(&placement_calls, &table);
	*has_started &= action_add(ACTION_STEP_END, &step) == 0;
}

static void placement_leave_context(CUcontext context)
{
	survey_leave_context(context);
	placement_tell(forget_functions);
}

static void placement_left_context(CUcontext context)
{
	(void)context;
	placement_tell(forget_functions);
}

const struct module module_placement = {.name = "placement",
                                        .start = placement_start,
                                        .leave_context = placement_leave_context,
                                        .left_context = placement_left_context};
