/* SPDX-License-Identifier: MIT */
/*
 * What the kernel calls: the table of placement, hooks, and the actions by which a survey is told
 * of launches and steps. Rules: runs inside the user's process.
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

static void calls_launched_blindly(void)
{
	heat_launched_blindly();
	heat_sampled();
}

static const struct placement_calls table = {.launched = heat_launched,
                                             .launched_blindly = calls_launched_blindly,
                                             .copied = heat_copied,
                                             .hide = heat_hide,
                                             .graph_launched = heat_graph_launched,
                                             .graph_kernel = heat_graph_kernel,
                                             .graph_address = heat_graph_address,
                                             .graph_add = heat_graph_add,
                                             .graph_replace = heat_graph_replace,
                                             .graph_forget = heat_graph_forget,
                                             .graph_capture_ended = heat_graph_capture_ended,
                                             .needs_images = parameters_need_images,
                                             .loaded = parameters_loaded,
                                             .handed_out = parameters_handed_out,
                                             .are_those_of = parameters_are_those_of,
                                             .forget_functions = parameters_forget,
                                             .track = touched_open,
                                             .touched = touched_within,
                                             .now = heat_now,
                                             .unit = heat_unit,
                                             .rank = placement_rank,
                                             .poll = placement_poll,
                                             .note_full = placement_note_full,
                                             .is_full = placement_is_full,
                                             .is_awaited = placement_is_awaited,
                                             .has_decided = placement_has_decided,
                                             .note_even = placement_note_even,
                                             .hurries = placement_hurries,
                                             .is_settled = placement_is_settled};

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
	                 .key = job_launch_key(launch),
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
	static const struct action step = {ACTION_RESOURCES, "survey", calls_step_ended, NULL};

	survey_serve(calls_survey);
	atomic_store(&placement_calls, &table);
	*has_started &= action_add(ACTION_STEP_END, &step) == 0;
}

static void placement_leave_context(CUcontext context)
{
	survey_leave_context(context);
	parameters_forget();
}

static void placement_left_context(CUcontext context)
{
	(void)context;
	parameters_forget();
}

const struct module module_placement = {.name = "placement",
                                        .start = placement_start,
                                        .leave_context = placement_leave_context,
                                        .left_context = placement_left_context};
