/* printf and assert of device code: vprintf and __assertfail, which the runtime provides. */
#include "print.h"

#include <stdio.h>
#include <string.h>

static uint64_t argument(struct warp *w, const struct call *call, uint32_t lane, uint32_t i)
{
	uint64_t value = 0;
	uint32_t offset = w->frame->local_base + call->arguments[i];
	memcpy(&value, w->local + (size_t)lane * w->local_capacity + offset,
	       call->argument_sizes[i] < 8 ? call->argument_sizes[i] : 8);
	return value;
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
                                    uint64_t *values)
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
		printf(spec, wide ? (long long)value : (long long)(int32_t)value);
	} else if (strchr("uxXo", kind)) {
		printf(spec, (unsigned long long)value);
	} else if (kind == 'c') {
		printf(spec, (int)value);
	} else if (kind == 's') {
		copy_string(w, lane, value, text, sizeof text);
		printf(spec, text);
	} else if (kind == 'p') {
		printf("0x%llx", (unsigned long long)value);
	} else if (kind == '%') {
		putchar('%');
	} else if (strchr("eEfFgGaA", kind)) {
		double number;
		memcpy(&number, &value, sizeof number);
		printf(spec, number);
	} else {
		fputs(spec, stdout);
	}
	return format + 1;
}

void print_formatted(struct warp *w, const struct insn *in, uint32_t mask)
{
	const struct call *call = &w->frame->function->calls[in->target];
	for (; mask; mask &= mask - 1) {
		uint32_t lane = (uint32_t)__builtin_ctz(mask), done = 0;
		uint64_t values = argument(w, call, lane, 1);
		char format[1024];
		copy_string(w, lane, argument(w, call, lane, 0), format, sizeof format);
		for (const char *at = format; *at;) {
			if (*at == '%')
				at = print_conversion(w, lane, at, &values);
			else
				putchar(*at++);
		}
		memcpy(w->local + (size_t)lane * w->local_capacity + w->frame->local_base +
		           call->results[0],
		       &done, call->result_sizes[0] < 4 ? call->result_sizes[0] : 4);
	}
	fflush(stdout);
}

void print_assertion(struct warp *w, const struct insn *in, uint32_t lane, char *text, size_t size)
{
	const struct call *call = &w->frame->function->calls[in->target];
	char condition[64], file[40];
	copy_string(w, lane, argument(w, call, lane, 0), condition, sizeof condition);
	copy_string(w, lane, argument(w, call, lane, 1), file, sizeof file);
	snprintf(text, size, "%s:%u: assertion `%s` failed", file,
	         (unsigned)argument(w, call, lane, 2), condition);
}
