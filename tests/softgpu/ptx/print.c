/* SPDX-License-Identifier: MIT */
/*
 * printf and assert of device code: vprintf and __assertfail, which the runtime provides. The text
 * of one call of one thread comes out as one piece, at once. A kernel that prints has one thread of
 * the host. So its text comes in the order of blocks, and before a wait for the kernel ends.
 */
#include "print.h"

#include "device_calls.h"

#include <stdio.h>
#include <string.h>

/* The text that one call prints; the end of what is too long is lost. */
struct output {
	char text[4096];
	size_t used;
};

__attribute__((format(printf, 2, 3))) static void put(struct output *o, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	size_t room = sizeof o->text - o->used;
	int n = vsnprintf(o->text + o->used, room, format, args);
	va_end(args);
	if (n > 0)
		o->used += (size_t)n < room ? (size_t)n : room - 1;
}

static void copy_string(struct warp *w, uint32_t lane, uint64_t address, char *text, size_t size)
{
	size_t n = 0;
	while (n + 1 < size) {
		text[n] =
		    *(const char *)memory_resolve(w, SPACE_GENERIC, lane, address + n, 1, false);
		if (!text[n])
			break;
		n++;
	}
	text[n] = '\0';
}

static void read_bytes(struct warp *w, uint32_t lane, uint64_t address, void *to, uint32_t size)
{
	memcpy(to, memory_resolve(w, SPACE_GENERIC, lane, address, size, false), size);
}

/* One conversion, from its '%' on; the values lie one after the other, aligned to their size. */
static const char *print_conversion(struct warp *w, uint32_t lane, const char *format,
                                    uint64_t *values, struct output *o)
{
	char spec[40], text[512];
	size_t n = 0;
	bool is_long = false;
	spec[n++] = *format++;
	while (*format && n < 32 && strchr("-+ #0123456789.hlLqjzt", *format)) {
		if (!strchr("hlLqjzt", *format))
			spec[n++] = *format;
		is_long |= strchr("lLqjzt", *format) != NULL;
		format++;
	}
	char kind = *format;
	if (!kind)
		return format;
	bool wide = is_long || strchr("eEfFgGaAsp", kind);
	uint64_t value = 0;
	if (kind != '%') {
		*values = wide ? (*values + 7) & ~(uint64_t)7 : (*values + 3) & ~(uint64_t)3;
		read_bytes(w, lane, *values, &value, wide ? 8 : 4);
		*values += wide ? 8 : 4;
	}
	if (strchr("diuxXoc", kind) && kind != 'c') {
		memcpy(spec + n, "ll", 2);
		n += 2;
	}
	spec[n++] = kind;
	spec[n] = '\0';
	if (strchr("di", kind)) {
		put(o, spec, wide ? (long long)value : (long long)(int32_t)value);
	} else if (strchr("uxXo", kind)) {
		put(o, spec, (unsigned long long)value);
	} else if (kind == 'c') {
		put(o, spec, (int)value);
	} else if (kind == 's') {
		copy_string(w, lane, value, text, sizeof text);
		put(o, spec, text);
	} else if (kind == 'p') {
		put(o, "0x%llx", (unsigned long long)value);
	} else if (kind == '%') {
		put(o, "%%");
	} else if (strchr("eEfFgGaA", kind)) {
		double number;
		memcpy(&number, &value, sizeof number);
		put(o, spec, number);
	} else {
		put(o, "%s", spec);
	}
	return format + 1;
}

void print_formatted(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct call *call = &w->frame->function->calls[in->target];
	for (; mask; mask &= mask - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(mask);
		uint64_t values = call_argument(w, call, lane, 1);
		struct output output = {.used = 0};
		char format[1024];
		copy_string(w, lane, call_argument(w, call, lane, 0), format, sizeof format);
		for (const char *at = format; *at;) {
			if (*at == '%')
				at = print_conversion(w, lane, at, &values, &output);
			else
				put(&output, "%c", *at++);
		}
		fwrite(output.text, 1, output.used, stdout);
		call_result(w, call, lane, 0);
	}
	fflush(stdout);
}

void print_assertion(struct warp *w, const struct insn *in, uint32_t lane, char *text, size_t size)
{
	const struct call *call = &w->frame->function->calls[in->target];
	char condition[64], file[40];
	copy_string(w, lane, call_argument(w, call, lane, 0), condition, sizeof condition);
	copy_string(w, lane, call_argument(w, call, lane, 1), file, sizeof file);
	snprintf(text, size, "%s:%u: assertion `%s` failed", file,
	         (unsigned)call_argument(w, call, lane, 2), condition);
}
