/* SPDX-License-Identifier: MIT */
/* The model. Times are nanoseconds in double. */
#include "tools/whatif/model.h"

#include <stdlib.h>
#include <string.h>

#include "core/config/config.h"
#include "tools/view/tool.h"

/* How far a link may be from what is known of it, by its source. */
static const double link_error[] = {[LINK_MODELLED] = 0.25, [LINK_MOVED] = 0.5, [LINK_READ] = 0.05};
/* What kernels read at least of the memory that they are given, where that was not seen. */
#define READ_LEAST 0.25
/* As the placer has it: memory goes back if kernels take more than so many times as long. */
#define MODEL_WORSE 1.01
/* A knee is so far below the line from one end to the other, as a part of its height. */
#define MODEL_BEND 0.1
/* A limit is found to a 256th of what is held. */
enum { MODEL_PARTS = 256, MODEL_KNEE_PARTS = 64 };

/* --- what was measured --- */

/* Lists the memory that kernels use, as the placer weighs it. */
static void model_list_pieces(struct model *m)
{
	const struct survey_record *r = m->record;
	uint64_t movable = 0;

	m->piece = allocate((r->pieces + 1) * sizeof *m->piece);
	m->piece_of = allocate((r->pieces + 1) * sizeof *m->piece_of);
	for (size_t i = 0; i < r->pieces; i++) {
		const struct record_piece *p = &r->piece[i];
		bool joins = r->is_whole && i && p->run >= 0 && r->piece[i - 1].run == p->run;

		movable += p->bytes;
		if (p->run < 0) {
			m->unused += p->bytes;
		} else if (joins) {
			m->piece[m->pieces - 1].bytes += p->bytes;
			m->piece[m->pieces - 1].read += p->read;
		} else {
			m->piece[m->pieces++] = (struct weigh_piece){
			    (uint32_t)p->run, p->is_on_host, p->bytes, p->read};
		}
		m->piece_of[i] = (uint32_t)(m->pieces - 1);
	}
	m->fixed = r->held > movable ? r->held - movable : 0;
}

/* Finds where each run's pieces are, and lists the runs as tensors. */
static void model_list_runs(struct model *m)
{
	const struct survey_record *r = m->record;
	uint32_t run = 0;

	m->base = allocate((r->pieces + 1) * sizeof *m->base);
	m->run_first = allocate((r->runs + 1) * sizeof *m->run_first);
	m->tensor = allocate((r->runs + r->addresses + 1) * sizeof *m->tensor);
	for (size_t i = 0; i < r->pieces; i++) {
		const struct record_piece *p = &r->piece[i];

		if (p->run < 0)
			continue;
		if (i && r->piece[i - 1].run == p->run)
			m->base[i] = m->base[i - 1] + r->piece[i - 1].bytes;
		else
			m->run_first[run++] = i;
		m->tensor[p->run] =
		    (struct model_tensor){.run = (uint32_t)p->run, .to = m->base[i] + p->read};
	}
	m->run_first[run] = r->pieces;
	m->tensors = r->runs;
}

static int by_address(const void *a, const void *b)
{
	const struct record_address *x = a, *y = b;

	if (x->run != y->run)
		return x->run < y->run ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Lists a tensor for each address: up to the next one, or to the end of its run. */
static void model_list_tensors(struct model *m)
{
	const struct survey_record *r = m->record;
	size_t size = (r->addresses + 1) * sizeof *r->address;
	struct record_address *sorted = allocate(size);

	if (r->addresses)
		memcpy(sorted, r->address, r->addresses * sizeof *sorted);
	qsort(sorted, r->addresses, sizeof *sorted, by_address);
	for (size_t i = 0; i < r->addresses; i++) {
		const struct record_address *a = &sorted[i];
		const struct model_tensor *whole = &m->tensor[a->run];
		struct model_tensor *last = &m->tensor[m->tensors - 1];

		if (i && by_address(a - 1, a) == 0)
			continue;
		if (i && last->run == a->run && last->to > a->offset)
			last->to = a->offset;
		m->tensor[m->tensors++] = (struct model_tensor){
		    .run = a->run,
		    .from = a->offset,
		    .to = whole->to > a->offset ? whole->to : a->offset,
		};
	}
	free(sorted);
}

/* Returns the tensor that begins at an address. */
static uint32_t model_tensor_at(const struct model *m, const struct record_address *address)
{
	size_t low = m->record->runs, high = m->tensors;

	while (low + 1 < high) {
		size_t middle = (low + high) / 2;
		const struct model_tensor *t = &m->tensor[middle];
		struct record_address begins = {t->run, t->from};

		if (by_address(&begins, address) <= 0)
			low = middle;
		else
			high = middle;
	}
	return (uint32_t)low;
}

/* Adds a tensor to the newest kernel, once. */
static void node_add(struct model *m, uint32_t tensor)
{
	struct model_node *node = &m->node[m->nodes - 1];

	for (uint32_t i = 0; i < node->count; i++)
		if (m->use[node->first + i] == tensor)
			return;
	m->use[m->uses++] = tensor;
	node->count++;
}

static void node_begin(struct model *m, uint32_t kernel)
{
	m->node[m->nodes++] = (struct model_node){.kernel = kernel, .first = (uint32_t)m->uses};
	m->node_first[kernel + 1]++;
}

static int by_kernel(const void *a, const void *b)
{
	const struct model_node *x = a, *y = b;

	if (x->kernel != y->kernel)
		return x->kernel < y->kernel ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* Returns the longest tensor of a kernel, besides one. */
static uint64_t node_longest_besides(const struct model *m, const struct model_node *node,
                                     uint32_t besides)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < node->count; i++) {
		const struct model_tensor *t = &m->tensor[m->use[node->first + i]];

		if (m->use[node->first + i] != besides && t->to - t->from > longest)
			longest = t->to - t->from;
	}
	return longest;
}

static uint64_t tensor_bytes(const struct model_tensor *tensor)
{
	return tensor->to - tensor->from;
}

static int by_length(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Marks the tensors that may have free memory of a pool behind them. */
static void mark_open(const struct model *m, bool *is_open)
{
	uint64_t *length = allocate((m->tensors + 2) * sizeof *length);
	size_t runs = m->record->runs, count = m->tensors - runs;

	for (size_t i = 0; i < count; i++)
		length[i] = tensor_bytes(&m->tensor[runs + i]);
	qsort(length, count, sizeof *length, by_length);
	for (size_t i = runs; i < m->tensors; i++) {
		const struct model_tensor *t = &m->tensor[i];
		uint64_t bytes = tensor_bytes(t);
		const uint64_t *same = bsearch(&bytes, length, count, sizeof *length, by_length);

		is_open[i] = same && same[1] != bytes && (same == length || same[-1] != bytes);
	}
	free(length);
}

/* Returns whether no other tensor is in its run, which may be an allocation of its own. */
static bool is_alone(const struct model *m, size_t i)
{
	const struct model_tensor *t = &m->tensor[i];

	return (i == m->record->runs || t[-1].run != t->run) &&
	       (i + 1 == m->tensors || t[1].run != t->run);
}

/* Returns the length of the longest tensor in a pool that is not open; 0: there is no pool. */
static uint64_t longest_in_pool(const struct model *m, const bool *is_open)
{
	uint64_t longest = 0;

	for (size_t i = m->record->runs; i < m->tensors; i++)
		if (!is_open[i] && !is_alone(m, i) && tensor_bytes(&m->tensor[i]) > longest)
			longest = tensor_bytes(&m->tensor[i]);
	return longest;
}

/* Returns the longest tensor of a kernel of which it is known where it ends; 0: there is none. */
static uint64_t node_longest(const struct model *m, const struct model_node *node,
                             const bool *is_open)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < node->count; i++) {
		uint32_t tensor = m->use[node->first + i];

		if (!is_open[tensor] && tensor_bytes(&m->tensor[tensor]) > longest)
			longest = tensor_bytes(&m->tensor[tensor]);
	}
	return longest;
}

/*
 * Notes up to where each kernel reads its tensors. At the address of an open one programs have
 * tensors of several lengths, one after the other. It is as long as the longest tensor of the
 * kernel, or of the next kernel with that address, which reads the result. For example, a kernel
 * writes a gradient of 9 MiB there, and the next one adds it to a momentum of 9 MiB.
 */
static void model_end_uses(struct model *m, const bool *is_open)
{
	uint64_t *next = allocate((m->tensors + 1) * sizeof *next);

	for (size_t n = m->nodes; n-- > 0;) {
		const struct model_node *node = &m->node[n];
		uint64_t own = node_longest(m, node, is_open);

		for (uint32_t u = node->first; u < node->first + node->count; u++) {
			const struct model_tensor *t = &m->tensor[m->use[u]];
			uint64_t most = own > next[m->use[u]] ? own : next[m->use[u]];

			m->use_to[u] = t->to;
			if (is_open[m->use[u]] && most && most < tensor_bytes(t))
				m->use_to[u] = t->from + most;
			next[m->use[u]] = own;
		}
	}
	free(next);
}

/* Notes how long the longest other tensor of each reading kernel is. Returns how many there are. */
static size_t list_longest(const struct model *m, uint32_t tensor, uint64_t *longest)
{
	size_t count = 0;

	for (size_t n = 0; n < m->nodes; n++)
		for (uint32_t i = 0; i < m->node[n].count; i++)
			if (m->use[m->node[n].first + i] == tensor && m->node[n].count > 1)
				longest[count++] = node_longest_besides(m, &m->node[n], tensor);
	return count;
}

/*
 * Has an open tensor end where the longest other one of a kernel does that reads it, by the median
 * of these kernels.
 */
static void model_end_tensor(struct model *m, uint32_t tensor, uint64_t *longest)
{
	struct model_tensor *t = &m->tensor[tensor];
	size_t count = list_longest(m, tensor, longest);

	if (!count)
		return;
	qsort(longest, count, sizeof *longest, by_length);
	if (longest[count / 2] < tensor_bytes(t))
		t->to = t->from + longest[count / 2];
}

/*
 * Tensors come several of a length: weights, their gradients and moments. A length in a pool that
 * comes once may have free memory in it. Such a tensor is taken to be no longer than the longest of
 * the others. `most` is this bound, and all of a run with no other tensor.
 */
static void model_end_tensors(struct model *m)
{
	bool *is_open = allocate((m->tensors + 1) * sizeof *is_open);
	uint64_t *longest = allocate((m->nodes + 1) * sizeof *longest), bound;

	mark_open(m, is_open);
	bound = longest_in_pool(m, is_open);
	for (uint32_t i = 0; i < m->tensors; i++) {
		struct model_tensor *t = &m->tensor[i];

		is_open[i] &= bound != 0;
		if (!is_open[i] || tensor_bytes(t) <= bound)
			continue;
		t->to = t->from + bound;
		t->most = is_alone(m, i) ? t->most : t->to;
	}
	for (uint32_t i = 0; i < m->tensors; i++)
		if (is_open[i])
			model_end_tensor(m, i, longest);
	model_end_uses(m, is_open);
	free(is_open);
	free(longest);
}

/* Lists the kernels. A launch of which they are not known is one, which reads all of its runs. */
static void model_list_nodes(struct model *m)
{
	const struct survey_record *r = m->record;

	m->node = allocate((r->nodes + r->kernels + 1) * sizeof *m->node);
	m->use = allocate((r->addresses + r->uses + 1) * sizeof *m->use);
	m->use_to = allocate((r->addresses + r->uses + 1) * sizeof *m->use_to);
	m->node_first = allocate((r->kernels + 2) * sizeof *m->node_first);
	for (size_t i = 0; i < r->nodes; i++) {
		const struct record_node *node = &r->node[i];

		node_begin(m, node->kernel);
		for (uint32_t u = 0; u < node->count; u++)
			node_add(m, model_tensor_at(m, &r->address[node->first + u]));
	}
	for (uint32_t k = 0; k < r->kernels; k++) {
		if (m->node_first[k + 1])
			continue;
		node_begin(m, k);
		for (uint32_t u = 0; u < r->kernel[k].uses; u++)
			node_add(m, r->use[r->kernel[k].first + u]);
	}
	for (size_t i = 0; i < m->tensors; i++)
		m->tensor[i].most = m->tensor[i].to;
	model_end_tensors(m);
	qsort(m->node, m->nodes, sizeof *m->node, by_kernel);
	for (uint32_t k = 0; k < r->kernels; k++)
		m->node_first[k + 1] += m->node_first[k];
}

/* Returns how many kernels a launch has. */
static size_t nodes_of(const struct model *m, size_t kernel)
{
	return m->node_first[kernel + 1] - m->node_first[kernel];
}

/* --- how much of a tensor is on the host --- */

/* Bytes on the host before each of the record's pieces, where the pieces that move are so. */
static double *host_before(const struct model *m, const struct weigh_piece *piece)
{
	const struct survey_record *r = m->record;
	double *before = allocate((r->pieces + 1) * sizeof *before), sum = 0;

	for (size_t i = 0; i < r->pieces; i++) {
		before[i] = sum;
		if (r->piece[i].run >= 0 && piece[m->piece_of[i]].is_on_host)
			sum += (double)r->piece[i].read;
	}
	before[r->pieces] = sum;
	return before;
}

/* Returns the bytes on the host before an offset in a run. */
static double host_up_to(const struct model *m, const double *before, uint32_t run, uint64_t offset)
{
	size_t low = m->run_first[run], high = m->run_first[run + 1];
	double most, part;

	while (low + 1 < high) {
		size_t middle = (low + high) / 2;

		/* Pieces that no kernel uses may lie between two runs. */
		if (m->record->piece[middle].run == (int64_t)run && m->base[middle] <= offset)
			low = middle;
		else
			high = middle;
	}
	most = before[low + 1] - before[low];
	part = (double)(offset - m->base[low]);
	return before[low] + lower(most, part);
}

/*
 * Returns the bytes on the host that each kernel reads of each of its tensors, in the order of
 * uses. The caller frees them.
 */
static double *host_of_uses(const struct model *m, const struct weigh_piece *piece, bool at_most)
{
	double *before = host_before(m, piece);
	double *bytes = allocate((m->uses + 1) * sizeof *bytes);

	for (size_t u = 0; u < m->uses; u++) {
		const struct model_tensor *t = &m->tensor[m->use[u]];

		bytes[u] = host_up_to(m, before, t->run, at_most ? t->most : m->use_to[u]) -
		           host_up_to(m, before, t->run, t->from);
	}
	free(before);
	return bytes;
}

static double node_bytes(const struct model_node *node, const double *host)
{
	double bytes = 0;

	for (uint32_t u = node->first; u < node->first + node->count; u++)
		bytes += host[u];
	return bytes;
}

static int by_traffic(const void *a, const void *b)
{
	const struct model_traffic *x = a, *y = b;

	return (x->reads > y->reads) - (x->reads < y->reads);
}

/* Lists the pieces that move by how often kernels read a byte of them. */
static void model_list_traffic(struct model *m)
{
	uint32_t *users = allocate((m->tensors + 1) * sizeof *users);

	for (size_t i = 0; i < m->uses; i++)
		users[m->use[i]]++;
	m->traffic = allocate((m->pieces + 1) * sizeof *m->traffic);
	for (size_t i = 0; i < m->tensors; i++) {
		const struct model_tensor *t = &m->tensor[i];

		for (size_t p = m->run_first[t->run]; users[i] && p < m->run_first[t->run + 1];
		     p++) {
			uint64_t from = m->base[p], to = from + m->record->piece[p].read;

			if (m->record->piece[p].run < 0 || to <= t->from || from >= t->most)
				continue;
			from = from > t->from ? from : t->from;
			to = to < t->most ? to : t->most;
			m->traffic[m->piece_of[p]].reads += users[i] * (double)(to - from);
		}
	}
	for (uint32_t i = 0; i < m->pieces; i++) {
		m->traffic[i].piece = i;
		m->traffic[i].reads /= (double)m->piece[i].bytes;
	}
	qsort(m->traffic, m->pieces, sizeof *m->traffic, by_traffic);
	free(users);
}

static struct weigh_case model_case(const struct model *m)
{
	const struct survey_record *r = m->record;

	return (struct weigh_case){.kernel = r->kernel,
	                           .kernels = r->kernels,
	                           .use = r->use,
	                           .uses = r->uses,
	                           .piece = m->piece,
	                           .pieces = m->pieces,
	                           .runs = r->runs,
	                           .is_shared = r->is_shared};
}

/* Returns whether both halves launched the same: then one step is a half. */
static bool has_two_halves(const struct survey_record *r)
{
	size_t half = r->kernels / 2;

	if (r->steps != 2 || r->kernels % 2)
		return false;
	for (size_t k = 0; k < half; k++)
		if (r->kernel[k].key != r->kernel[half + k].key)
			return false;
	return true;
}

static int by_number(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the time in which at least one kernel ran. */
static double model_union(const struct survey_record *r)
{
	double(*span)[2] = allocate((r->kernels + 1) * sizeof *span), sum = 0, end = 0;

	for (size_t k = 0; k < r->kernels; k++) {
		span[k][0] = (double)r->kernel[k].at_ns;
		span[k][1] = span[k][0] + (double)r->kernel[k].ns;
	}
	qsort(span, r->kernels, sizeof *span, by_number);
	for (size_t k = 0; k < r->kernels; k++) {
		double from = higher(span[k][0], end);

		sum += higher(span[k][1] - from, 0);
		end = higher(end, span[k][1]);
	}
	free(span);
	return sum;
}

/* Returns whether the first launches are the same functions again and again, so many at a time. */
static bool has_period(const struct survey_record *r, size_t launches, size_t period)
{
	for (size_t k = period; k < launches; k++)
		if (r->kernel[k].key != r->kernel[k - period].key)
			return false;
	return launches % period == 0;
}

/*
 * Returns how many times as many steps there are, by their functions. For example, a graph that
 * reads one copy of the weights and writes the other comes again exactly after two steps. Kernels
 * alone do not tell this: a program has the same ones for each of its layers.
 */
static double count_alike(const struct model *m)
{
	const struct survey_record *r = m->record;
	size_t launches = r->kernels / (size_t)r->steps;
	bool has_graph = false;

	for (size_t period = 1; period < launches; period++) {
		has_graph |= nodes_of(m, period - 1) > 1;
		if (has_graph && has_period(r, launches, period))
			return (double)launches / (double)period;
	}
	return 1;
}

/*
 * Returns how many steps of the program were measured. What comes again exactly may be several of
 * its steps, as where each has other data. Then their number is that of the launches, or where no
 * steps were seen that of alike ones.
 */
static double count_steps(const struct model *m)
{
	const struct survey_record *r = m->record;
	double launches = r->seen_steps ? (double)r->seen_launches / (double)r->seen_steps : 0;
	double found, whole;

	if (!r->steps)
		return 1;
	found = launches > 0 ? (double)r->kernels / r->steps / launches : count_alike(m);
	whole = (double)(uint64_t)(found + 0.5);
	return r->steps * (whole >= 2 ? whole : 1);
}

/* Measures a step, and what part of it kernels have. */
static void model_measure(struct model *m)
{
	const struct survey_record *r = m->record;
	const struct weigh_kernel *last = &r->kernel[r->kernels - 1];
	double sum = 0, together;
	size_t half = r->kernels / 2;

	m->steps = count_steps(m);
	for (size_t k = 0; k < r->kernels; k++)
		sum += (double)r->kernel[k].ns;
	together = last->at_ns ? model_union(r) : sum;
	m->overlap = sum > 0 ? lower(together / sum, 1) : 1;
	m->kernels_ns = sum / m->steps * m->overlap;
	m->step_ns = has_two_halves(r) ? (double)r->kernel[half].at_ns * 2 / m->steps
	                               : (double)(last->at_ns + last->ns) / m->steps;
	m->step_ns = higher(m->step_ns, m->kernels_ns);
}

/*
 * Learns from the launches as the placer does, but by the tensors that their kernels read. Returns
 * how long the link takes for a byte; 0: no kernel has waited for it.
 */
static double model_learn_kernels(struct model *m, const double *host)
{
	const struct survey_record *r = m->record;
	struct weigh_kernel *kernel = allocate((r->kernels + 1) * sizeof *kernel);
	struct weigh_piece *piece = allocate((m->uses + 1) * sizeof *piece);
	uint32_t *use = allocate((m->uses + 1) * sizeof *use);
	struct weigh_case given = {.kernel = kernel,
	                           .kernels = r->kernels,
	                           .use = use,
	                           .piece = piece,
	                           .pieces = m->uses,
	                           .runs = (uint32_t)m->uses,
	                           .is_shared = r->is_shared};
	double ns_of_byte = 0;

	for (uint32_t i = 0; i < m->uses; i++) {
		uint64_t bytes = (uint64_t)host[i];

		piece[i] = (struct weigh_piece){i, bytes != 0, bytes, bytes};
	}
	for (size_t k = 0; k < r->kernels; k++) {
		kernel[k] = r->kernel[k];
		kernel[k].first = (uint32_t)given.uses;
		for (size_t n = m->node_first[k]; n < m->node_first[k + 1]; n++)
			for (uint32_t i = 0; i < m->node[n].count; i++)
				use[given.uses++] = m->node[n].first + i;
		kernel[k].uses = (uint32_t)given.uses - kernel[k].first;
	}
	if (!weigh_learn(&given, m->known, &ns_of_byte))
		fail("out of memory");
	free(kernel);
	free(piece);
	free(use);
	return ns_of_byte;
}

/* Returns the time of a launch of kernels that compute for so long each. */
static double launch_ns(const struct model *m, size_t k, double computes, const double *host,
                        double ns_of_byte)
{
	double sum = 0;

	for (size_t n = m->node_first[k]; n < m->node_first[k + 1]; n++)
		sum += higher(computes, node_bytes(&m->node[n], host) * ns_of_byte);
	return sum;
}

/*
 * Learns how long each kernel of a graph computes that waited for the host: so long that the graph
 * takes as long as it was measured to take. For example, a graph of 4 kernels took 10 ms, of which
 * one reads for 7 ms: each computes for 1 ms.
 */
static void model_learn_graph(struct model *m, size_t k, const double *host)
{
	double ns = (double)m->record->kernel[k].ns, low = 0, high = ns;
	double least = launch_ns(m, k, 0, host, 1e9 / m->link);

	if (least <= 0)
		return;
	m->known[k].factor = 1;
	for (int i = 0; i < 50; i++) {
		double middle = (low + high) / 2;

		if (launch_ns(m, k, middle, host, 1e9 / m->link) > ns)
			high = middle;
		else
			low = middle;
	}
	m->known[k].least = lower(low * (double)nodes_of(m, k), ns);
	/* The link was faster than believed, or less was read. */
	if (least > ns)
		m->known[k] = (struct weigh_known){.least = 0, .factor = ns / least};
}

static void model_learn(struct model *m)
{
	const struct survey_record *r = m->record;
	double *host = host_of_uses(m, m->piece, false), ns_of_byte, unknown = 0, all = 0;
	bool has_graphs = false;

	for (size_t i = 0; i < m->pieces; i++)
		m->has_read |= m->piece[i].is_on_host;
	m->known = allocate((r->kernels + 1) * sizeof *m->known);
	ns_of_byte = model_learn_kernels(m, host);
	for (size_t k = 0; k < r->kernels; k++)
		has_graphs |= nodes_of(m, k) > 1;
	/* The time of a graph is more than its reading, so moves tell more of the link. */
	m->source = ns_of_byte > 0 && !(has_graphs && r->to_device) ? LINK_READ
	            : r->to_device                                  ? LINK_MOVED
	                                                            : LINK_MODELLED;
	m->link = m->source == LINK_READ                          ? 1e9 / ns_of_byte
	          : m->source == LINK_MOVED                       ? (double)r->to_device
	          : strcmp(r->name, "Spillway software GPU") == 0 ? MODEL_SOFTGPU_LINK
	                                                          : MODEL_LINK;
	for (size_t k = 0; k < r->kernels; k++) {
		if (nodes_of(m, k) > 1)
			model_learn_graph(m, k, host);
		if (m->known[k].least <= 0 || (nodes_of(m, k) == 1 && !m->known[k].is_seen))
			unknown += (double)r->kernel[k].ns;
		all += (double)r->kernel[k].ns;
	}
	m->unknown = all > 0 ? unknown / all : 0;
	free(host);
}

/*
 * Returns whether the launch is a graph. Without kernels in the record it is taken for one where it
 * uses half of the memory, and takes more than half of a step.
 */
static bool is_graph(const struct model *m, size_t k)
{
	const struct weigh_kernel *kernel = &m->record->kernel[k];

	if (m->record->nodes)
		return nodes_of(m, k) > 1;
	return kernel->uses > 1 && kernel->uses * 2 >= m->record->runs &&
	       (double)kernel->ns * 2 > m->step_ns;
}

void model_make(struct model *model, const struct survey_record *record)
{
	*model = (struct model){.record = record};
	model_list_pieces(model);
	model_list_runs(model);
	model_list_tensors(model);
	model_list_nodes(model);
	model_list_traffic(model);
	model_measure(model);
	model_learn(model);
	for (size_t k = 0; k < record->kernels; k++) {
		model->least_ns += model->known[k].least;
		model->has_graph |= is_graph(model, k);
	}
	model->least_ns = model->least_ns * model->overlap / model->steps;
	if (record->steps)
		model->least_ns += model->step_ns - model->kernels_ns;
}

void model_free(struct model *model)
{
	free(model->known);
	free(model->piece);
	free(model->tensor);
	free(model->node);
	free(model->use);
	free(model->use_to);
	free(model->node_first);
	free(model->base);
	free(model->run_first);
	free(model->piece_of);
	free(model->traffic);
	*model = (struct model){0};
}

double model_measured(const struct model *model)
{
	return model->record->steps ? model->step_ns : model->kernels_ns;
}

uint64_t model_held(const struct model *model)
{
	return model->record->held;
}

/* --- where memory is --- */

/* What a prediction is made with. */
struct guess {
	const struct model *m;
	struct weigh_case given;
	struct weigh_kernel *kernel; /* with the times that a survey would find */
	struct weigh_piece *piece;
	struct weigh_answer answer;
	uint64_t leaves; /* bytes that have to be on the host, of all memory */
};

static uint64_t bytes_on_host(const struct survey_record *r)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->pieces; i++)
		bytes += r->piece[i].is_on_host ? r->piece[i].bytes : 0;
	return bytes;
}

/* What moves together, as it is placed before a survey. */
struct bundle {
	size_t first, end; /* of the record's pieces */
	uint64_t bytes;
	uint32_t users; /* launches that use it */
};

/* Hotter first; as it was allocated where that is the same. */
static int by_heat(const void *a, const void *b)
{
	const struct bundle *x = a, *y = b;

	if (x->users != y->users)
		return x->users > y->users ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* Lists the memory that moves, with how many launches use it. Returns how many there are. */
static size_t list_bundles(const struct survey_record *r, struct bundle *bundle)
{
	uint32_t *users = allocate((r->runs + 1) * sizeof *users);
	size_t count = 0;

	for (size_t i = 0; i < r->uses; i++)
		users[r->use[i]]++;
	for (size_t i = 0; i < r->pieces; i++) {
		const struct record_piece *p = &r->piece[i];
		bool joins = r->is_whole && i && p->run >= 0 && r->piece[i - 1].run == p->run;

		if (!joins)
			bundle[count++] =
			    (struct bundle){.first = i, .users = p->run < 0 ? 0 : users[p->run]};
		bundle[count - 1].end = i + 1;
		bundle[count - 1].bytes += p->bytes;
	}
	free(users);
	return count;
}

/* Has memory lie where it is placed before a survey: the memory of most launches on the device. */
static void place_first(struct guess *g)
{
	const struct survey_record *r = g->m->record;
	uint64_t movable = r->held - g->m->fixed;
	uint64_t room = movable > g->leaves ? movable - g->leaves : 0;
	struct bundle *bundle = allocate((r->pieces + 1) * sizeof *bundle);
	size_t count = list_bundles(r, bundle);

	qsort(bundle, count, sizeof *bundle, by_heat);
	for (size_t i = 0; i < count; i++) {
		bool fits = bundle[i].bytes <= room;

		room -= fits ? bundle[i].bytes : 0;
		if (r->piece[bundle[i].first].run >= 0)
			g->piece[g->m->piece_of[bundle[i].first]].is_on_host = !fits;
	}
	free(bundle);
}

/* Returns whether as much was on the host while it was measured: then it lies where it lay. */
static bool is_as_recorded(const struct guess *g)
{
	uint64_t was = bytes_on_host(g->m->record);
	uint64_t piece = g->m->pieces ? g->m->piece[0].bytes : 0;

	return was && (was > g->leaves ? was - g->leaves : g->leaves - was) <= piece;
}

static void guess_begin(struct guess *g, const struct model *m, uint64_t limit)
{
	size_t size = (m->pieces + 1) * sizeof *g->piece;
	size_t kernels = (m->record->kernels + 1) * sizeof *g->kernel;
	uint64_t held = m->record->held;

	*g = (struct guess){.m = m, .given = model_case(m)};
	g->leaves = held > limit ? held - limit : 0;
	g->piece = allocate(size);
	memcpy(g->piece, m->piece, size);
	g->given.piece = g->piece;
	g->kernel = allocate(kernels);
	memcpy(g->kernel, m->record->kernel, m->record->kernels * sizeof *g->kernel);
	g->given.kernel = g->kernel;
	g->given.spill = g->leaves > m->unused ? g->leaves - m->unused : 0;
	g->answer.order = allocate((m->pieces + 1) * sizeof *g->answer.order);
	if (!is_as_recorded(g))
		place_first(g);
}

static void guess_end(struct guess *g)
{
	free(g->kernel);
	free(g->piece);
	free(g->answer.order);
}

/* What kernels take where memory is, and what of it they read from the host. */
struct guess_sum {
	double ns, bytes;
};

/* How kernels meet the link: as it is supposed, and at best and at worst. */
struct guess_how {
	double link;
	double read; /* of what a kernel is taken to read */
	enum {
		GRAPHS_SHARE, /* a graph's kernels compute for equally long */
		GRAPHS_HIDE,  /* its reading is behind all of its computing */
		GRAPHS_WAIT,  /* or beside it */
	} graphs;
};

/*
 * Returns the time of a launch of kernels that read so much of each tensor. At worst the kernels of
 * a graph that read do not compute, and a launch that waited each time computes for as long as it
 * took. At best all of a graph's reading hides behind its computing.
 */
static double guess_launch(const struct model *m, size_t k, const double *host,
                           const struct guess_how *how, double *bytes)
{
	const struct weigh_known *known = &m->known[k];
	double ns_of_byte = known->factor * how->read * 1e9 / how->link;
	double each = known->least / (double)nodes_of(m, k), ns;
	double most = known->is_seen ? known->least : (double)m->record->kernel[k].ns;

	*bytes = launch_ns(m, k, 0, host, known->factor * how->read);
	ns = *bytes * 1e9 / how->link;
	if (how->graphs == GRAPHS_WAIT)
		return nodes_of(m, k) == 1 ? higher(most, ns) : most + ns;
	if (how->graphs == GRAPHS_HIDE || nodes_of(m, k) == 1)
		return higher(known->least, ns);
	return launch_ns(m, k, each, host, ns_of_byte);
}

/* Adds up the launches. Notes how long each takes where `to` is not NULL. */
static struct guess_sum guess_add_up(const struct guess *g, const struct guess_how *how,
                                     struct weigh_kernel *to)
{
	const struct model *m = g->m;
	double *host = host_of_uses(m, g->piece, how->graphs == GRAPHS_WAIT);
	struct guess_sum sum = {0};

	for (size_t k = 0; k < m->record->kernels; k++) {
		double bytes, ns = guess_launch(m, k, host, how, &bytes);

		sum.bytes += bytes;
		sum.ns += ns;
		if (to)
			to[k].ns = (uint64_t)ns;
	}
	free(host);
	sum.bytes /= m->steps;
	return sum;
}

static uint64_t host_of(const struct guess *g)
{
	uint64_t bytes = g->leaves < g->m->unused ? g->leaves : g->m->unused;

	for (size_t i = 0; i < g->m->pieces; i++)
		bytes += g->piece[i].is_on_host ? g->piece[i].bytes : 0;
	return bytes;
}

/*
 * Has memory lie where the placer moves it: the cheapest leaves. Then as much comes back as fits,
 * the dearest first. For example, pieces of 2, 4 and 8 MiB leave where 7 MiB have to, and those of
 * 4 and 2 MiB come back.
 */
static void place_best(struct guess *g)
{
	uint64_t left = 0;

	for (size_t i = 0; i < g->m->pieces; i++)
		g->piece[i].is_on_host = false;
	for (size_t i = 0; i < g->answer.spilled; i++) {
		g->piece[g->answer.order[i]].is_on_host = true;
		left += g->piece[g->answer.order[i]].bytes;
	}
	for (size_t i = g->answer.spilled; i-- > 0;) {
		struct weigh_piece *piece = &g->piece[g->answer.order[i]];

		if (left - piece->bytes < g->given.spill)
			continue;
		piece->is_on_host = false;
		left -= piece->bytes;
	}
}

/*
 * Has the memory that kernels read most be on the host, or that which they read least. Whether the
 * placer can tell one from the other is not known where launches are graphs.
 */
static void place_extreme(struct guess *g, bool is_worst)
{
	const struct model *m = g->m;
	uint64_t left = is_worst ? g->leaves : g->given.spill;

	for (size_t i = 0; i < m->pieces; i++)
		g->piece[i].is_on_host = false;
	for (size_t i = 0; i < m->pieces && left; i++) {
		size_t at = is_worst ? m->pieces - 1 - i : i;
		struct weigh_piece *piece = &g->piece[m->traffic[at].piece];

		piece->is_on_host = true;
		left -= piece->bytes < left ? piece->bytes : left;
	}
}

/* --- times --- */

/* Returns how long a step takes in which kernels take so long; without steps, these alone. */
static double step_with(const struct model *m, double kernels, double share, double *busy_ns)
{
	double busy = kernels * m->overlap / m->steps;
	double step = m->step_ns - m->kernels_ns + busy;

	*busy_ns = busy;
	if (!m->record->steps)
		return busy;
	return share < 1 ? higher(step, busy / share) : step;
}

void model_ask(const struct model *model, const struct model_question *question,
               struct model_answer *answer)
{
	double link = question->link > 0 ? question->link : model->link, busy, unused;
	double share = question->share > 0 ? lower(question->share, 1) : 1;
	double error = question->link > 0 ? link_error[LINK_READ] : link_error[model->source];
	struct guess_how likely = {link, 1, GRAPHS_SHARE}, at_best, at_worst;
	struct guess_sum sum;
	bool is_uncertain;
	struct guess g;

	*answer = (struct model_answer){
	    .limit = question->limit,
	    .link = link,
	    .share = share,
	    .is_possible = question->limit >= model->fixed,
	};
	guess_begin(&g, model, question->limit);
	sum = guess_add_up(&g, &likely, g.kernel);
	at_worst = (struct guess_how){link * (1 - error), 1, GRAPHS_WAIT};
	answer->high_ns = step_with(model, guess_add_up(&g, &at_worst, NULL).ns, share, &unused);
	answer->host = host_of(&g);
	is_uncertain = model->has_graph && answer->host && !is_as_recorded(&g);
	if (!weigh_up(&g.given, &g.answer))
		fail("out of memory");
	place_best(&g);
	/* The placer has memory go back where it was if kernels take longer then. */
	if (weigh_is_worth(&g.answer)) {
		struct guess_sum moved = guess_add_up(&g, &likely, NULL);

		answer->is_moved = moved.ns <= MODEL_WORSE * sum.ns;
		sum = answer->is_moved ? moved : sum;
		answer->host = answer->is_moved ? host_of(&g) : answer->host;
	}
	answer->bus = sum.bytes;
	answer->step_ns = step_with(model, sum.ns, share, &busy);
	/* Where nothing was on the host it is not known how much kernels read of their memory. */
	at_best =
	    (struct guess_how){link * (1 + error), model->has_read ? 1 : READ_LEAST, GRAPHS_HIDE};
	if (is_uncertain)
		place_extreme(&g, false);
	answer->low_ns = step_with(model, guess_add_up(&g, &at_best, NULL).ns, share, &unused);
	if (is_uncertain) {
		double high;

		place_extreme(&g, true);
		high = step_with(model, guess_add_up(&g, &at_worst, NULL).ns, share, &unused);
		answer->high_ns = higher(answer->high_ns, high);
	}
	answer->low_ns = lower(answer->low_ns, answer->step_ns);
	answer->high_ns = higher(answer->high_ns, answer->step_ns);
	answer->busy =
	    busy > 0 ? busy / (model->record->steps ? answer->step_ns
	                                            : model->step_ns - model->kernels_ns + busy)
	             : 0;
	answer->times = model->least_ns > 0 ? answer->step_ns / model->least_ns : 1;
	guess_end(&g);
}

/* --- limits --- */

static double times_at(const struct model *model, const struct model_question *like, uint64_t limit)
{
	struct model_question question = *like;
	struct model_answer answer;

	question.limit = limit;
	model_ask(model, &question, &answer);
	return answer.times;
}

/* Returns the limit of this part of what may be on the host. */
static uint64_t limit_of_part(const struct model *model, int part, int parts)
{
	uint64_t held = model->record->held, fixed = model->fixed;

	return fixed + (uint64_t)((double)(held - fixed) * part / parts);
}

uint64_t model_smallest(const struct model *model, const struct model_question *like,
                        double slowdown)
{
	double most = times_at(model, like, model->record->held);
	int low = 0, high = MODEL_PARTS; /* high is within the slowdown */

	most = higher(most, 1) * (1 + slowdown) + 1e-9;
	while (low < high) {
		int middle = (low + high) / 2;

		if (times_at(model, like, limit_of_part(model, middle, MODEL_PARTS)) <= most)
			high = middle;
		else
			low = middle + 1;
	}
	return limit_of_part(model, high, MODEL_PARTS);
}

/* The point that is farthest below the line from one end of the curve to the other. */
uint64_t model_knee(const struct model *model, const struct model_question *like)
{
	double first = times_at(model, like, model->fixed);
	double last = times_at(model, like, model->record->held), farthest = 0;
	int knee = MODEL_KNEE_PARTS;

	for (int i = 1; i < MODEL_KNEE_PARTS && first > last; i++) {
		double at = times_at(model, like, limit_of_part(model, i, MODEL_KNEE_PARTS));
		double line = first + (last - first) * i / MODEL_KNEE_PARTS;

		if (line - at > farthest) {
			farthest = line - at;
			knee = i;
		}
	}
	/* A curve that is nearly straight has none. */
	if (farthest < MODEL_BEND * (first - last))
		knee = MODEL_KNEE_PARTS;
	return limit_of_part(model, knee, MODEL_KNEE_PARTS);
}

/* --- two jobs --- */

/* Stretches a step so that its kernels have this part of the GPU's time. */
static void stretch(struct model_answer *answer, double part)
{
	double times = answer->busy > part ? answer->busy / part : 1;

	answer->step_ns *= times;
	answer->low_ns *= times;
	answer->high_ns *= times;
	answer->times *= times;
	answer->busy /= times;
}

void model_beside(struct model_answer *one, struct model_answer *other)
{
	double a = one->busy, b = other->busy;

	if (a + b <= 1)
		return;
	stretch(one, higher(0.5, 1 - b));
	stretch(other, higher(0.5, 1 - a));
}
