/* See nearest.h. The work grows with the product of the lengths, so long names are not compared at all. */
#include "base/nearest.h"

#include <string.h>

enum { LONGEST = 64, MOST_CHANGES = 3 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int distance(const char *a, int n, const char *b, int m)
{
    int before[LONGEST + 1], last[LONGEST + 1], now[LONGEST + 1];
    for (int j = 0; j <= m; j++)
        last[j] = j;
    for (int i = 1; i <= n; i++) {
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
        memcpy(before, last, sizeof last);
        memcpy(last, now, sizeof now);
    }
    return last[m];
}

void pd_nearest_offer(struct pd_nearest *nearest, const char *known)
{
    int limit = nearest->best ? nearest->changes : least(nearest->length / 4, MOST_CHANGES) + 1;
    int length = (int)strnlen(known, LONGEST + 1);
    if (nearest->length > LONGEST || length > LONGEST) return;
    if (length - nearest->length >= limit || nearest->length - length >= limit) return;
    int changes = distance(nearest->name, nearest->length, known, length);
    if (changes >= limit) return;
    nearest->changes = changes;
    nearest->best = known;
}
