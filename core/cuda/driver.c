/* The driver's functions as core/ calls them, empty until the shim, or a test's own definition, has filled them in. */
#include "core/cuda/driver.h"

struct driver driver;
