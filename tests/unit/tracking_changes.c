/* The rows that change or ask what is in the books: each with a word on what is looked at. */
#include "tests/unit/tracking.h"

void check_changes(void)
{
}
