/* SPDX-License-Identifier: MIT */
/* Plans: a move is carried out only while its address has the memory that it was planned for. */
#include <check.h>

#include "core/memory/move/plan.h"
#include "suite.h"

struct driver driver; /* is not asked */

#define MIB     ((size_t)1 << 20)
#define ADDRESS ((CUdeviceptr)0x7000000000)

/* The memory that is mapped at ADDRESS. */
static struct move mapped;
static bool is_mapped;

static void take_no_lock(struct device *device)
{
	(void)device;
}

static bool look(struct device *device, struct move *move, bool pinned_too)
{
	(void)device, (void)pinned_too;
	move->size = mapped.size;
	move->from = mapped.from;
	move->is_from_device = mapped.is_from_device;
	move->has_like = mapped.has_like;
	move->like = mapped.like;
	return is_mapped;
}

static const struct movable_kind kind = {
    .acquire = take_no_lock, .release = take_no_lock, .look = look};

static struct plan plan;

static void plan_one_move(void)
{
	static struct choice choice;

	choice.count = 1;
	choice.of[0] = (struct candidate){.kind = &kind, .address = ADDRESS, .size = 2 * MIB};
	mapped = (struct move){.size = 2 * MIB, .from = 7};
	is_mapped = true;
	plan = (struct plan){.to = SEGMENT_ON_DEVICE, .pins = true};
	plan_fill(&plan, NULL, &choice, 2 * MIB);
	ck_assert_uint_eq(plan.count, 1);
}

static size_t still_planned(void)
{
	return plan_check(&plan, NULL, plan.count);
}

START_TEST(a_move_stays_while_its_memory_is_there)
{
	plan_one_move();
	ck_assert_uint_eq(still_planned(), 1);
}
END_TEST

START_TEST(other_memory_at_the_address_does_not_move)
{
	plan_one_move();
	is_mapped = false;
	ck_assert_uint_eq(still_planned(), 0);
	plan_one_move();
	mapped.from = 8;
	ck_assert_uint_eq(still_planned(), 0);
	plan_one_move();
	mapped.size = 4 * MIB;
	ck_assert_uint_eq(still_planned(), 0);
}
END_TEST

/* The driver gave the handle of memory that was released to other memory. */
START_TEST(a_handle_that_came_again_is_other_memory)
{
	plan_one_move();
	mapped.is_from_device = true;
	ck_assert_uint_eq(still_planned(), 0);
	plan_one_move();
	mapped.has_like = true;
	ck_assert_uint_eq(still_planned(), 0);
	plan_one_move();
	plan.moves[0].has_like = mapped.has_like = true;
	mapped.like.allocFlags.gpuDirectRDMACapable = 1;
	ck_assert_uint_eq(still_planned(), 0);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("plan");

	tcase_add_test(tests, a_move_stays_while_its_memory_is_there);
	tcase_add_test(tests, other_memory_at_the_address_does_not_move);
	tcase_add_test(tests, a_handle_that_came_again_is_other_memory);
	return suite_run("plan", tests);
}
