/* killpoint.c -- see killpoint.h; empty unless built with test hooks. */
#include "base/killpoint.h"

#ifdef FENPAY_TEST_HOOKS

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/str.h"

static struct {
    struct str name; /* p NULL: no kill point armed */
    _Atomic int64_t passes_left;
    _Atomic int mutation;
    const _Atomic int64_t *clock; /* NULL: the clock is the machine's */
} hooks;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const mutation_names[] = {
    [MUTATION_NONE] = "none",
    [MUTATION_SYNC_OFF] = "sync_off",
    [MUTATION_ANSWER_BEFORE_COMMIT] = "answer_before_commit",
    [MUTATION_CANCEL_UNSETTLED] = "cancel_unsettled",
    [MUTATION_NOT_EXIST_AT_ONCE] = "not_exist_at_once",
    [MUTATION_UNKNOWN_FORGOTTEN] = "unknown_forgotten",
    [MUTATION_CLOSE_UNHEARD] = "close_unheard",
    [MUTATION_SURPLUS_UNTOLD] = "surplus_untold",
    [MUTATION_STALE_ROW] = "stale_row",
    [MUTATION_REDELIVERY_DONE] = "redelivery_done",
    [MUTATION_BYTES_LOST] = "bytes_lost",
    [MUTATION_ATTEMPT_UNGUARDED] = "attempt_unguarded",
    [MUTATION_CLOSE_UNASKED] = "close_unasked",
    [MUTATION_MARKED_UNSENT] = "marked_unsent",
    [MUTATION_DEAD_TARGET] = "dead_target",
    [MUTATION_LOSER_WINS] = "loser_wins",
    [MUTATION_LEASE_IGNORED] = "lease_ignored",
    [MUTATION_REFUND_UNRESERVED] = "refund_unreserved",
    [MUTATION_REFUND_UNSURE] = "refund_unsure",
    [MUTATION_REFUND_UNKEYED] = "refund_unkeyed",
    [MUTATION_FEED_BY_MINT] = "feed_by_mint",
};
_Static_assert(sizeof(mutation_names) / sizeof(mutation_names[0]) == MUTATIONS, "all have a name");

/* A misspelt hook would make a test pass without having tested anything. */
static _Noreturn void bad_hook(const char *variable)
{
    static const char text[] = ": cannot be understood\n";
    (void)!write(STDERR_FILENO, variable, strlen(variable));
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    abort();
}

static void map_clock(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *hooks.clock, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        bad_hook("FENPAY_CLOCK");
    close(fd);
    hooks.clock = at;
}

static void read_environment(void)
{
    const char *clock = getenv("FENPAY_CLOCK");
    if (clock && *clock)
        map_clock(clock);
    struct str rest = str_of(getenv("FENPAY_KILL_AT"));
    if (rest.n) {
        int64_t passes = 1;
        hooks.name = str_cut(&rest, ':');
        if (rest.p && (str_int64(rest, &passes) || passes < 1))
            bad_hook("FENPAY_KILL_AT");
        atomic_store(&hooks.passes_left, passes);
    }

    const char *mutation = getenv("FENPAY_MUTATION");
    if (!mutation || !*mutation)
        return;
    for (size_t i = 0; i < sizeof(mutation_names) / sizeof(mutation_names[0]); i++) {
        if (strcmp(mutation, mutation_names[i]) == 0) {
            atomic_store(&hooks.mutation, (int)i);
            return;
        }
    }
    bad_hook("FENPAY_MUTATION");
}

void kill_point(const char *name)
{
    pthread_once(&once, read_environment);
    if (!hooks.name.p || !str_eq(hooks.name, str_of(name)))
        return;
    if (atomic_fetch_sub(&hooks.passes_left, 1) == 1)
        raise(SIGKILL);
}

bool mutation_on(enum mutation m)
{
    pthread_once(&once, read_environment);
    return m != MUTATION_NONE && atomic_load(&hooks.mutation) == (int)m;
}

const char *mutation_name(enum mutation m)
{
    return mutation_names[m];
}

int64_t clock_ahead_ms(void)
{
    pthread_once(&once, read_environment);
    return hooks.clock ? atomic_load(hooks.clock) : 0;
}

void mutation_set(enum mutation m)
{
    pthread_once(&once, read_environment);
    atomic_store(&hooks.mutation, (int)m);
}

#endif
