/* Loading: the sources in order, weakest first, into one snapshot or none. */
#include "core/config/snapshot.h"

#include "core/base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int config_add_file(struct config *config, enum config_layer layer, const char *path,
                    struct config_error *error)
{
	struct config_place place = {path, 0};
	char *text;
	size_t length;
	/* Nobody links an override file; whoever does wants us to read something else. */
	int status = config_file_load(path, layer != LAYER_OVERRIDE, &text, &length);

	if (layer != LAYER_FILE && (status == -ENOENT || status == -ENOTDIR))
		return 0;
	if (status == -EINVAL)
		return config_fail(error, status, place, "expected a regular file");
	errno = -status;
	if (status != 0)
		return config_fail(error, status, place, "cannot read it: %m%s",
		                   layer == LAYER_FILE ? " (named by SPILLWAY_CONFIG)" : "");
	config->has_file = true;
	if (layer == LAYER_OVERRIDE)
		config->override_hash = hash_bytes(HASH_NOTHING, text, length);
	status = config_add_text(config, layer, path, text, length, error);
	free(text);
	return status;
}

static int add_layers(struct config *config, const struct config_sources *sources,
                      struct config_error *error)
{
	int status = 0;

	if (sources->system_file)
		status = config_add_file(config, LAYER_SYSTEM, sources->system_file, error);
	config_name_enforced(config);
	if (status == 0 && sources->stands_in)
		status =
		    config_add_stand_in(config, sources->environment, sources->is_weighed, error);
	if (status == 0 && sources->file && !config_enforces(config))
		status = config_add_file(config, LAYER_FILE, sources->file, error);
	if (status == 0 && sources->environment)
		status = config_add_environment(config, sources->environment, error);
	if (status == 0 && sources->orders)
		status = config_add_text(config, LAYER_ORDERS, sources->orders_from,
		                         sources->orders, strlen(sources->orders), error);
	if (status == 0 && sources->override_file)
		status = config_add_file(config, LAYER_OVERRIDE, sources->override_file, error);
	if (status == 0)
		status = config_check(config, error);
	return status;
}

int config_load(const struct config_sources *sources, struct config **config,
                struct config_error *error)
{
	struct config *loaded = config_create();
	int status;

	if (!loaded)
		return config_fail(error, -ENOMEM, (struct config_place){"configuration", 0},
		                   "out of memory");
	status = add_layers(loaded, sources, error);
	if (status == 0)
		*config = loaded;
	else
		config_release(loaded);
	return status;
}
