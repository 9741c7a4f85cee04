/* killed.h -- lives that end at a named point: each is a process of its own (the test program
 * again, with --part), because a kill point is armed once a process. */
#ifndef FENPAY_TEST_KILLED_H
#define FENPAY_TEST_KILLED_H

#include "core_world.h"

#include <sys/wait.h>

/* A centre over the database in the folder; the first life makes it. */
static inline void open_in(struct core *w, const char *folder, int64_t now_ms, bool first)
{
    struct err_info info = { 0 };
    int applied;
    memset(w, 0, sizeof *w);
    struct world *world = &w->world;
    snprintf(world->folder, sizeof world->folder, "%s", folder);
    snprintf(world->url, sizeof world->url, "sqlite:%s/fenpay.db", folder);
    env_init_test(&world->test, now_ms, (uint64_t)now_ms);
    world->env = &world->test.env;
    world->arena = arena_new(4096);
    world->mint = mint_new(world->env, 1);
    struct store_options o = world_options(world, false);
    if (first)
        assert_ok(store_migrate(&o, &applied, &info));
    assert_ok(store_open(&o, &world->store, &info));
    core_centre(w);
}

/* `what` is the life's name, for main(); `kill_at` NULL: it lives on. The status, as of waitpid. */
static inline int part(const char *what, const char *folder, const char *kill_at)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (kill_at)
            setenv("FENPAY_KILL_AT", kill_at, 1);
        char *argv[] = { (char *)(uintptr_t) "killed", (char *)(uintptr_t) "--part",
                         (char *)(uintptr_t)what, (char *)(uintptr_t)folder, NULL };
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

#define KILLED_FOLDER 32
static inline const char *killed_folder(char room[KILLED_FOLDER])
{
    snprintf(room, KILLED_FOLDER, "/dev/shm/fenpay-test-XXXXXX");
    const char *folder = mkdtemp(room); /* a killed process loses no page cache */
    if (!folder) {
        snprintf(room, KILLED_FOLDER, "/tmp/fenpay-test-XXXXXX");
        folder = mkdtemp(room);
    }
    assert_non_null(folder);
    return folder;
}

#endif
