/* SPDX-License-Identifier: MIT */
/* Sentences about refusals. Pure. */
#include "core/ledger/refused.h"

#include <stdio.h>

#include "core/base/units.h"

/* The limit that refused, and the next step. */
struct refused_words {
	const char *because, *advice;
};

static struct refused_words refused_words_of(enum refusal_reason reason)
{
	switch (reason) {
	case REFUSED_MEMORY_LIMIT:
		return (struct refused_words){
		    "the memory limit is used up, and spill = off",
		    "Raise it with `--memory`, or use the host with `spill = auto`."};
	case REFUSED_UNMOVABLE:
		return (struct refused_words){
		    "memory that cannot leave the GPU fills the memory limit",
		    "Raise it with `--memory`."};
	case REFUSED_HOST_LIMIT:
		return (struct refused_words){"host memory is used up",
		                              "Raise it with `--host-memory`."};
	case REFUSED_HOST_FULL:
		return (struct refused_words){
		    "the machine, or the job's memory cgroup, has no host memory left",
		    "Raise the cgroup's memory.max, end other programs, or set `--host-memory`."};
	case REFUSED_POOL_SIZE:
		return (struct refused_words){"the program's memory pool has reached its maxSize",
		                              "Raise maxSize in the program."};
	case REFUSED_NO_BOOKS:
		return (struct refused_words){
		    "this process could not join its job, and has no part of the limit",
		    "The first line of the log says why; `spillway doctor` helps."};
	case REFUSED_DEVICE_FULL:
		return (struct refused_words){
		    "the GPU is full: the limit was not reached",
		    "End other programs on it, or use the host with `spill = auto`."};
	case REFUSED_FIRST:
		return (struct refused_words){"the program is told first, to free its cache",
		                              "Change that with `spill_after`."};
	case REFUSED_PROCESS:
		return (struct refused_words){
		    "the process has no memory or no addresses left for it",
		    "Raise its `ulimit -v`, or its memory cgroup's memory.max."};
	case REFUSED_BOOKS_HELD:
		return (struct refused_words){
		    "another process of the job stands still with the job's books",
		    "Let that process go on (`kill -CONT`), or end it."};
	case REFUSED_NOTHING:
	case REFUSED_BY_DRIVER:
		break;
	}
	return (struct refused_words){"the driver has no room for it",
	                              "End other programs on the GPU."};
}

bool refused_is_warned(enum refusal_reason reason)
{
	switch (reason) {
	case REFUSED_NOTHING:
	case REFUSED_FIRST:       /* the program asks again */
	case REFUSED_POOL_SIZE:   /* its own bound */
	case REFUSED_DEVICE_FULL: /* as it would have been told without Spillway */
	case REFUSED_BY_DRIVER:
	case REFUSED_BOOKS_HELD: /* a line of the books said so */
		return false;
	default:
		return true;
	}
}

const char *refused_because(enum refusal_reason reason)
{
	return refused_words_of(reason).because;
}

static void refused_limit_text(const struct refused *refused, char *buf, size_t size)
{
	char limit[32], lacking[32];

	units_format_size(refused->limit, limit, sizeof limit);
	units_format_size(refused->lacking, lacking, sizeof lacking);
	*buf = '\0';
	if (refused->limit != REFUSED_NO_LIMIT && refused->lacking)
		snprintf(buf, size, " (limit %s, %s too little)", limit, lacking);
	else if (refused->limit != REFUSED_NO_LIMIT)
		snprintf(buf, size, " (limit %s)", limit);
	else if (refused->lacking)
		snprintf(buf, size, " (%s too little)", lacking);
}

const char *refused_text(const struct refused *refused, const char *what, char *buf, size_t size)
{
	const struct refused_words words = refused_words_of(refused->reason);
	char bytes[32] = "memory", limit[96];

	if (refused->bytes)
		units_format_size(refused->bytes, bytes, sizeof bytes);
	refused_limit_text(refused, limit, sizeof limit);
	snprintf(buf, size, "refused %s%s: %s%s. %s", bytes, what, words.because, limit,
	         words.advice);
	return buf;
}
