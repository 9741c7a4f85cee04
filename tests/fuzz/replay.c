/* replay.c -- main() of the fuzz targets in ordinary builds: runs the target once over every file
 * of its corpus, so that what a fuzzer once found stays found. With -Dfuzz=true libFuzzer's own
 * main takes this place. */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES (4 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 0: done. The input lies in a block of exactly its size, so that a sanitizer sees a byte too far.
 */
static int replay(const char *path)
{
    static uint8_t whole[FILE_MAX_BYTES];
    FILE *f = fopen(path, "rbe");
    if (!f) {
        perror(path);
        return 1;
    }
    size_t n = fread(whole, 1, sizeof(whole), f);
    int bad = ferror(f) || !feof(f);
    fclose(f);
    if (bad) {
        fprintf(stderr, "%s: cannot be read whole\n", path);
        return 1;
    }
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact)
        abort();
    memcpy(exact, whole, n);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    int files = 0, bad = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
        return 2;
    }
    DIR *d = opendir(argv[1]);
    if (!d) {
        perror(argv[1]);
        return 1;
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        int n = snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
        if (n < 0 || (size_t)n >= sizeof(path))
            continue;
        bad |= replay(path);
        files++;
    }
    closedir(d);
    printf("%d files\n", files);
    return bad || !files; /* an empty corpus tests nothing */
}
