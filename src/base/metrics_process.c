/* metrics_process.c -- what the operating system knows about us, looked up when scraped. */
#include "base/metrics.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int64_t cpu_us(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u))
        return 0;
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000LL + u.ru_utime.tv_usec +
           u.ru_stime.tv_usec;
}

/* The second number of /proc/self/statm is resident pages. */
static int64_t resident_bytes(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f)
        return 0;
    if (fscanf(f, "%*s %ld", &pages) != 1)
        pages = 0;
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static int64_t open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    if (!d)
        return 0;
    int64_t count = -1; /* the one we look with */
    for (struct dirent *entry; (entry = readdir(d));)
        count += entry->d_name[0] != '.';
    closedir(d);
    return count;
}

static void fill(struct metrics *m, void *arg)
{
    const char *path = arg;
    struct statvfs disk;
    metric_set(metrics_get(m, "process_cpu_seconds_total", NULL), cpu_us());
    metric_set(metrics_get(m, "process_resident_memory_bytes", NULL), resident_bytes());
    metric_set(metrics_get(m, "process_open_fds", NULL), open_fds());
    if (path && statvfs(path, &disk) == 0)
        metric_set(metrics_get(m, "fenpay_disk_free_bytes", path),
                   (int64_t)(disk.f_bavail * disk.f_frsize));
}

void metrics_watch_process(struct metrics *m, const char *disk_path)
{
    metrics_on_scrape(m, fill, (void *)(uintptr_t)disk_path);
}
