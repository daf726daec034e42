/* SPDX-License-Identifier: MIT */
/* The curve of a prediction: the memory limit against how many times as long a step takes. */
#include "core/base/units.h"
#include "tools/whatif/whatif.h"

enum { WIDTH = 640, HEIGHT = 360, LEFT = 60, RIGHT = 20, TOP = 40, BOTTOM = 50, POINTS = 48 };

struct curve {
	FILE *out;
	const struct model *model;
	struct model_question question;
	uint64_t low, high; /* limits at both ends */
	double most;        /* times, at the top */
};

static double curve_x(const struct curve *c, uint64_t limit)
{
	double part = c->high > c->low
	                  ? ((double)limit - (double)c->low) / ((double)c->high - (double)c->low)
	                  : 1;

	return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double curve_y(const struct curve *c, double times)
{
	return HEIGHT - BOTTOM - (times - 1) / (c->most - 1) * (HEIGHT - TOP - BOTTOM);
}

static struct model_answer curve_at(const struct curve *c, uint64_t limit)
{
	struct model_question question = c->question;
	struct model_answer answer;

	question.limit = limit;
	model_ask(c->model, &question, &answer);
	return answer;
}

static uint64_t curve_limit(const struct curve *c, int point)
{
	return c->low + (uint64_t)((double)(c->high - c->low) * point / POINTS);
}

/* Draws the range as an area, there along its lower bound and back along the upper one. */
static void draw_range(const struct curve *c)
{
	fprintf(c->out, "<polygon class=\"range\" points=\"");
	for (int i = 0; i <= POINTS; i++) {
		struct model_answer a = curve_at(c, curve_limit(c, i));

		fprintf(c->out, "%.1f,%.1f ", curve_x(c, a.limit),
		        curve_y(c, a.times * a.low_ns / a.step_ns));
	}
	for (int i = POINTS; i >= 0; i--) {
		struct model_answer a = curve_at(c, curve_limit(c, i));

		fprintf(c->out, "%.1f,%.1f ", curve_x(c, a.limit),
		        higher(TOP, curve_y(c, a.times * a.high_ns / a.step_ns)));
	}
	fprintf(c->out, "\"/>\n");
}

static void draw_line(const struct curve *c)
{
	fprintf(c->out, "<polyline class=\"line\" points=\"");
	for (int i = 0; i <= POINTS; i++) {
		struct model_answer a = curve_at(c, curve_limit(c, i));

		fprintf(c->out, "%.1f,%.1f ", curve_x(c, a.limit), curve_y(c, a.times));
	}
	fprintf(c->out, "\"/>\n");
}

/* Returns 0.01, 0.02, 0.05, 0.1 and so on: the first by which a span has at most six steps. */
static double nice_step(double span)
{
	double step = 0.01;

	for (int i = 0; span / step > 6; i++)
		step *= i % 3 == 1 ? 2.5 : 2;
	return step;
}

static void draw_axes(const struct curve *c)
{
	char size[32];
	double step = nice_step(c->most - 1);

	for (int i = 0; 1 + i * step <= c->most + 1e-9; i++) {
		double times = 1 + i * step, y = curve_y(c, times);

		fprintf(c->out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>\n", LEFT, y,
		        WIDTH - RIGHT);
		fprintf(c->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g ×</text>\n",
		        LEFT - 8, y + 4, times);
	}
	for (int i = 0; i <= 4; i++) {
		uint64_t limit = curve_limit(c, i * POINTS / 4);

		fprintf(c->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>\n",
		        curve_x(c, limit), HEIGHT - BOTTOM + 20,
		        i == 0   ? "start"
		        : i == 4 ? "end"
		                 : "middle",
		        units_format_size(limit, size, sizeof size));
	}
	fprintf(c->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">memory limit</text>\n",
	        (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
}

/* Marks a limit, with a word. */
static void draw_mark(const struct curve *c, uint64_t limit, const char *word, double above)
{
	struct model_answer a = curve_at(c, limit);
	double x = curve_x(c, limit), y = curve_y(c, a.times);
	char size[32];

	fprintf(c->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", x, y);
	fprintf(c->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s: %s, %.2f ×</text>\n",
	        x + (x > WIDTH / 2.0 ? 0 : 10), higher(y - above, TOP),
	        x > WIDTH / 2.0 ? "end" : "start", word,
	        units_format_size(limit, size, sizeof size), a.times);
}

void whatif_svg(FILE *out, const struct model *model, const struct whatif_grid *grid)
{
	struct curve c = {
	    .out = out,
	    .model = model,
	    .question = {.link = grid->link[0], .share = grid->shares ? grid->share[0] : 1},
	    .low = model->fixed,
	    .high = model_held(model)};
	uint64_t within = model_smallest(model, &c.question, grid->slowdown);

	c.most = higher(curve_at(&c, c.low).times, 1.02);
	fprintf(out,
	        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n"
	        "<title>How many times as long a step takes, by memory limit</title>\n"
	        "<style>text{font:13px sans-serif;fill:#57606a}.grid{stroke:#8c959f;"
	        "stroke-opacity:.3}.line{fill:none;stroke:#0969da;stroke-width:2}.range{"
	        "fill:#0969da;fill-opacity:.15}circle{fill:#0969da}"
	        "@media(prefers-color-scheme:dark){text{fill:#9198a1}}</style>\n",
	        WIDTH, HEIGHT);
	draw_axes(&c);
	draw_range(&c);
	draw_line(&c);
	draw_mark(&c, within, "within the slowdown", 12);
	draw_mark(&c, model_knee(model, &c.question), "knee", 28);
	fprintf(out, "</svg>\n");
}
