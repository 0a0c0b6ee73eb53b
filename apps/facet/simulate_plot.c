/* SPDX-License-Identifier: Apache-2.0 */
/* Owns: the plot of allocation against arrived load. Never: refers to another file, such as a script or a font. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "simulate.h"

enum { WIDTH = 860, HEIGHT = 520, LEFT = 60, TOP = 40, RIGHT = 150, BOTTOM = 50, TICKS = 10 };

static const char *const colors[FACET_PLACEMENT_POLICIES] = {"#7f7f7f", "#1f77b4", "#2ca02c", "#9467bd",
                                                             "#8c564b", "#e377c2", "#ff7f0e", "#d62728"};

struct axes {
    double x_most, y_least, y_most;
};

static double x_of(const struct axes *axes, double load)
{
    return LEFT + load / axes->x_most * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct axes *axes, double percent)
{
    return TOP + (axes->y_most - percent) / (axes->y_most - axes->y_least) * (HEIGHT - TOP - BOTTOM);
}

static void print_grid(FILE *file, const struct axes *axes)
{
    fprintf(file, "<g stroke='#ddd' fill='#444' font-size='12'>\n");
    for (int i = 0; i <= TICKS; i++) {
        double load = axes->x_most * i / TICKS, percent = axes->y_least + (axes->y_most - axes->y_least) * i / TICKS;
        double x = x_of(axes, load), y = y_of(axes, percent);

        fprintf(file, "<path d='M%.1f %d V%d M%d %.1f H%d'/>", x, TOP, HEIGHT - BOTTOM, LEFT, y, WIDTH - RIGHT);
        fprintf(file, "<text stroke='none' text-anchor='middle' x='%.1f' y='%d'>%.0f</text>", x, HEIGHT - BOTTOM + 18,
                load);
        fprintf(file, "<text stroke='none' text-anchor='end' x='%d' y='%.1f'>%.0f</text>\n", LEFT - 6, y + 4, percent);
    }
    fprintf(file,
            "</g>\n<text x='%d' y='%d' text-anchor='middle'>GPUs requested so far, %% of the fleet</text>\n"
            "<text x='%d' y='%d'>GPUs allocated, %% of the fleet</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, LEFT, TOP - 14);
}

static void print_curve(FILE *file, const struct simulate *simulate, uint32_t policy, const struct axes *axes)
{
    struct simulate_mean mean = simulate_mean(simulate, policy);
    const char *color = colors[simulate->policies[policy]];
    const char *name = facet_placement_policy_name(simulate->policies[policy]);

    fprintf(file, "<polyline fill='none' stroke='%s' stroke-width='2' points='%.1f,%.1f", color, x_of(axes, 0),
            y_of(axes, 0));
    for (uint32_t i = 0; i < simulate->point_count; i++)
        fprintf(file, " %.1f,%.1f", x_of(axes, simulate->points[i] / 10.0), y_of(axes, mean.percent[i]));
    fprintf(file, "'><title>%s</title></polyline>\n", name);
    fprintf(file, "<text x='%d' y='%u' fill='%s'>%s %.2f</text>\n", WIDTH - RIGHT + 10, TOP + 20 + 20 * policy, color,
            name, mean.percent[simulate->point_count - 1]);
}

static void print_svg(FILE *file, const struct simulate *simulate)
{
    struct axes axes = {simulate->points[simulate->point_count - 1] / 10.0, 0, 100};

    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' font-size='13'>\n"
            "<rect width='100%%' height='100%%' fill='white'/>\n",
            WIDTH, HEIGHT);
    print_grid(file, &axes);
    for (uint32_t i = 0; i < simulate->policy_count; i++)
        print_curve(file, simulate, i, &axes);
    fprintf(file, "</svg>\n");
}

static void print_html(FILE *file, const struct simulate *simulate)
{
    fprintf(file, "<!doctype html>\n<meta charset='utf-8'>\n<title>facet simulate</title>\n"
                  "<h1 style='font-family:sans-serif;font-size:18px'>Allocated against requested GPUs</h1>\n");
    print_svg(file, simulate);
    fprintf(file, "<p style='font-family:sans-serif'>%s; mean of %llu seeds from %llu on.</p>\n",
            "Each line is one policy", (unsigned long long)simulate->seeds, (unsigned long long)simulate->seed_base);
}

enum facet_status simulate_plot(const struct simulate *simulate, struct facet_error *error)
{
    size_t length = strlen(simulate->plot_file);
    FACET_CLEANUP_FILE FILE *file = fopen(simulate->plot_file, "w");

    if (!file)
        return facet_error_errno(error, errno, "cannot write %s", simulate->plot_file);
    if (length > 5 && strcmp(simulate->plot_file + length - 5, ".html") == 0)
        print_html(file, simulate);
    else
        print_svg(file, simulate);
    if (fflush(file) != 0 || ferror(file))
        return facet_error_errno(error, errno, "cannot write %s", simulate->plot_file);
    return FACET_OK;
}
