/* SPDX-License-Identifier: MIT */
/* The record of a survey. Rules: by the mover; a disk that is full costs the record alone. */
#include "core/modules/placement/record.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/state/segment.h"

enum { RECORD_LINE_MAX = 160, RECORD_ROOM = 1 << 16 };

/* Returns whether another line fits. */
static bool record_has_room(struct record *record)
{
	size_t room = record->room ? record->room * 2 : RECORD_ROOM;
	char *text;

	if (record->room - record->size >= RECORD_LINE_MAX)
		return true;
	text = record->is_short ? NULL : realloc(record->text, room);
	record->is_short |= !text;
	if (!text)
		return false;
	record->text = text;
	record->room = room;
	return true;
}

void record_add(struct record *record, const char *format, ...)
{
	va_list arguments;

	if (!record_has_room(record))
		return;
	va_start(arguments, format);
	record->size +=
	    (size_t)vsnprintf(record->text + record->size, RECORD_LINE_MAX, format, arguments);
	va_end(arguments);
}

void record_publish(struct record *record, const struct device *device)
{
	int error = record->is_short  ? -ENOMEM
	            : device->segment ? segment_put_survey(device->segment, device->index,
	                                                   record->text, record->size)
	                              : 0;

	if (error)
		log_info("device %d: its survey is not written for what-if: %s", device->index,
		         strerror(-error));
	free(record->text);
	*record = (struct record){0};
}
