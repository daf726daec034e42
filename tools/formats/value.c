/* SPDX-License-Identifier: MIT */
/* Values for people. */
#include "tools/formats/value.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/units.h"
#include "core/config/config.h"
#include "tools/view/node.h"

const char *value_limit(uint64_t bytes, char *buf, size_t size)
{
	if (bytes != CONFIG_UNLIMITED)
		return units_format_size(bytes, buf, size);
	snprintf(buf, size, "none");
	return buf;
}

const char *value_share(uint64_t millipercent, char *buf, size_t size)
{
	snprintf(buf, size, "%g %%", (double)millipercent / 1000);
	return buf;
}

const char *value_busy(const struct statistics *total, char *buf, size_t size)
{
	if (!counter_busy_is_known(total))
		return "-";
	return units_format_duration(total->busy_ns, buf, size);
}

const char *value_steps(const struct statistics *of, char *buf, size_t size)
{
	snprintf(buf, size, "%" PRIu64 "%s", of->steps,
	         of->steps && !counter_steps_are_all(of) ? "+" : "");
	return buf;
}

const char *value_share_held(const struct statistics *of, bool is_apart, char *buf, size_t size)
{
	double percent = (double)of->share_held / 1000;
	bool has_both_marks = is_apart && of->share_estimated;

	if (!counter_held_is_known(of))
		return "-";
	/* It stands in a column of six characters. */
	snprintf(buf, size, "%s%.*f%%%s", of->share_estimated ? "~" : "",
	         percent < 99.95 && !has_both_marks, percent, is_apart ? "*" : "");
	return buf;
}

void value_explain_apart(FILE *out)
{
	fprintf(out, "* by this user's jobs alone: other users' jobs on this GPU take no turns "
	             "with them, so shares do not hold together. As root: spillway doctor --setup "
	             "--group GROUP\n");
}

void value_explain_estimated(FILE *out)
{
	fprintf(out,
	        "~ an estimate: programs that take no turns with this job use the GPU, too.\n"
	        "  Jobs of other users do after root's spillway doctor --setup --group GROUP\n");
}

const char *value_in_unit(enum counter_unit unit, uint64_t number, char *buf, size_t size)
{
	const char *word;

	switch (unit) {
	case COUNTER_bytes:
		return value_limit(number, buf, size);
	case COUNTER_ns:
		return units_format_duration(number, buf, size);
	case COUNTER_millipercent:
		return value_share(number, buf, size);
	case COUNTER_flag:
		return number ? "yes" : "no";
	case COUNTER_user:
		return number ? node_user((uid_t)(number - 1), buf, size) : "-";
	default:
		break;
	}
	word = counter_unit_word(unit, number);
	if (word)
		return word;
	snprintf(buf, size, "%" PRIu64, number);
	return buf;
}
