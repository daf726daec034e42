/* SPDX-License-Identifier: MIT */
/* Selectors: which devices a section is about. */
#include "core/config/snapshot.h"

#include "core/base/units.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static int selector_hex_digit(char c)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	const char *found = c ? strchr(digits, c) : NULL;
	int value = found ? (int)(found - digits) : -1;

	return value > 15 ? value - 6 : value;
}

/* Reads exactly count digits; the text after them, or NULL. */
static const char *scan_hex(const char *text, int count, uint64_t *value)
{
	*value = 0;
	for (; count > 0; count--, text++) {
		if (selector_hex_digit(*text) < 0)
			return NULL;
		*value = *value << 4 | (uint64_t)selector_hex_digit(*text);
	}
	return text;
}

/* Parses [DOMAIN:]BUS:DEVICE[.FUNCTION]; a domain has 4 digits, or 8 as nvidia-smi writes it. */
static int parse_pci(const char *text, uint64_t *pci)
{
	uint64_t domain = 0, bus, device, function = 0;
	size_t first = strcspn(text, ":");

	if (text[first] == ':' && (first == 4 || first == 8)) {
		text = scan_hex(text, (int)first, &domain);
		if (!text)
			return -EINVAL;
		text++;
	}
	text = scan_hex(text, 2, &bus);
	if (!text || *text != ':')
		return -EINVAL;
	text = scan_hex(text + 1, 2, &device);
	if (text && *text == '.')
		text = scan_hex(text + 1, 1, &function);
	if (!text || *text != '\0')
		return -EINVAL;
	*pci = domain << 24 | bus << 16 | device << 8 | function;
	return 0;
}

/*
 * Returns whether text is "GPU-" or "MIG-" and at least one digit; old drivers name MIG devices
 * "MIG-GPU-UUID/1/2".
 */
static bool selector_is_uuid(const char *text)
{
	if (strncasecmp(text, "GPU-", 4) != 0 && strncasecmp(text, "MIG-", 4) != 0)
		return false;
	text += strncasecmp(text, "MIG-GPU-", 8) == 0 ? 8 : 4;
	return selector_hex_digit(*text) >= 0 &&
	       text[strspn(text, "0123456789abcdefABCDEF-/")] == '\0';
}

int config_selector_parse(const char *text, struct config_selector *selector)
{
	struct config_selector result = {.kind = SELECT_ALL};
	uint64_t ordinal;

	if (*text == '\0') {
		result.kind = SELECT_ALL;
	} else if (units_parse_count(text, &ordinal) == 0 && ordinal <= INT32_MAX) {
		result.kind = SELECT_ORDINAL;
		result.ordinal = (int)ordinal;
	} else if (parse_pci(text, &result.pci) == 0) {
		result.kind = SELECT_PCI;
	} else if (selector_is_uuid(text) && strlen(text) < sizeof(result.uuid)) {
		result.kind = SELECT_UUID;
		strcpy(result.uuid, text);
	} else {
		return -EINVAL;
	}
	*selector = result;
	return 0;
}

bool config_selector_equal(const struct config_selector *a, const struct config_selector *b)
{
	return a->kind == b->kind && a->ordinal == b->ordinal && a->pci == b->pci &&
	       strcasecmp(a->uuid, b->uuid) == 0;
}

/*
 * Returns whether text begins the UUID. The driver names a MIG device by the bytes of its UUID
 * alone, so here it is "GPU-...", and "MIG-..." elsewhere.
 */
static bool begins_uuid(const char *text, const char *uuid)
{
	if (strncasecmp(text, "MIG-", 4) == 0 && strncasecmp(uuid, "GPU-", 4) == 0) {
		text += 4;
		uuid += 4;
	}
	return strncasecmp(uuid, text, strlen(text)) == 0;
}

bool config_selector_matches(const struct config_selector *selector,
                             const struct config_device *device)
{
	uint64_t pci;

	switch (selector->kind) {
	case SELECT_ALL:
		return true;
	case SELECT_ORDINAL:
		return device->ordinal == selector->ordinal;
	case SELECT_PCI:
		return parse_pci(device->pci_bus_id, &pci) == 0 && pci == selector->pci;
	case SELECT_UUID:
		return begins_uuid(selector->uuid, device->uuid);
	}
	return false;
}

bool config_selects(const char *name, const struct config_device *device)
{
	struct config_selector selector;

	return *name && config_selector_parse(name, &selector) == 0 &&
	       config_selector_matches(&selector, device);
}
