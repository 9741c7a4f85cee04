/* fibre.c -- fibres on ucontext, with the announcements that let ASan and TSan follow a change of
 * stacks.
 *
 * The order of calls around each swapcontext is the sanitizers': "start" with where we go, switch,
 * "finish" on arrival. The stack is a root for LeakSanitizer, so that what only a sleeping fibre
 * points to is not called a leak. Without sanitizers a fibre is entered by setcontext once and then
 * switched by _setjmp and _longjmp: swapcontext asks the kernel for the signal mask each time. */
#undef _FORTIFY_SOURCE /* its longjmp takes a change of stacks for a mistake */
#include "base/fibre.h"

#include <assert.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/sanitize.h"

#if SANITIZE_ADDRESS
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if SANITIZE_THREAD
#include <sanitizer/tsan_interface.h>
#endif

/* What a sanitizer remembers of a side while the other one runs. */
struct side {
    void *asan_fake_stack;
    const void *stack_bottom;
    size_t stack_size;
    void *tsan_fiber;
};

#define SWAP      (SANITIZE_ADDRESS || SANITIZE_THREAD)
#define SPARE_MAX 128

struct fibre {
    ucontext_t self, resumer;
    jmp_buf self_at, resumer_at;
    bool entered;
    struct side self_side, resumer_side;
    fibre_fn *fn;
    void *arg;
    char *map; /* guard page, then the stack */
    size_t map_size;
    bool ended;
};

static _Thread_local struct fibre *current;

/* Stacks of fibres that are gone: a simulation makes one for every call. */
static _Thread_local struct {
    char *map[SPARE_MAX];
    size_t n, map_size; /* all of that size */
} spare;

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

#if SANITIZE_ADDRESS
static void announce_leave(struct side *from, const struct side *to, bool for_good)
{
    __sanitizer_start_switch_fiber(for_good ? NULL : &from->asan_fake_stack, to->stack_bottom,
                                   to->stack_size);
}
static void announce_arrival(const struct side *here, struct side *from)
{
    __sanitizer_finish_switch_fiber(here->asan_fake_stack, &from->stack_bottom, &from->stack_size);
}
static void announce_new(struct side *s)
{
    __lsan_register_root_region(s->stack_bottom, s->stack_size);
}
static void announce_free(struct side *s)
{
    __lsan_unregister_root_region(s->stack_bottom, s->stack_size);
    ASAN_UNPOISON_MEMORY_REGION(s->stack_bottom,
                                s->stack_size); /* frames of a fibre that never returned */
}
#elif SANITIZE_THREAD
static void announce_leave(struct side *from, const struct side *to, bool for_good)
{
    (void)for_good;
    from->tsan_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->tsan_fiber, 0);
}
static void announce_arrival(const struct side *here, struct side *from)
{
    (void)here;
    (void)from;
}
static void announce_new(struct side *s)
{
    s->tsan_fiber = __tsan_create_fiber(0);
}
static void announce_free(struct side *s)
{
    __tsan_destroy_fiber(s->tsan_fiber);
}
#else
static void announce_leave(struct side *from, const struct side *to, bool for_good)
{
    (void)from;
    (void)to;
    (void)for_good;
}
static void announce_arrival(const struct side *here, struct side *from)
{
    (void)here;
    (void)from;
}
static void announce_new(struct side *s)
{
    (void)s;
}
static void announce_free(struct side *s)
{
    (void)s;
}
#endif

/* ---- switching ---- */

static void switch_in(struct fibre *f)
{
    if (SWAP) {
        if (swapcontext(&f->resumer, &f->self))
            abort();
        return;
    }
    if (_setjmp(f->resumer_at))
        return;
    if (f->entered)
        _longjmp(f->self_at, 1);
    f->entered = true;
    setcontext(&f->self);
    abort(); /* setcontext does not return */
}

static void switch_out(struct fibre *f)
{
    if (SWAP) {
        if (swapcontext(&f->self, &f->resumer))
            abort();
    } else if (!_setjmp(f->self_at)) {
        _longjmp(f->resumer_at, 1);
    }
}

static void entry(void)
{
    struct fibre *f = current;
    announce_arrival(&f->self_side, &f->resumer_side);
    f->fn(f->arg);
    f->ended = true;
    announce_leave(&f->self_side, &f->resumer_side, true);
    if (!SWAP)
        _longjmp(f->resumer_at, 1);
    setcontext(&f->resumer);
    abort();
}

/* ---- stacks ---- */

static char *map_stack(size_t map_size, size_t page)
{
    if (spare.n && spare.map_size == map_size)
        return spare.map[--spare.n];
    char *map = mmap(NULL, map_size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect(map, page, PROT_NONE))
        abort();
    return map;
}

static void let_stack_go(char *map, size_t map_size)
{
    if (!spare.n)
        spare.map_size = map_size;
    if (spare.map_size == map_size && spare.n < SPARE_MAX)
        spare.map[spare.n++] = map;
    else
        munmap(map, map_size);
}

/* ---- a fibre ---- */

struct fibre *fibre_new(fibre_fn *fn, void *arg, size_t stack_bytes)
{
    size_t page = page_size();
    struct fibre *f = calloc(1, sizeof(*f));
    if (!f)
        abort();
    f->fn = fn;
    f->arg = arg;
    size_t stack = (stack_bytes + page - 1) / page * page;
    f->map_size = stack + page;
    f->map = map_stack(f->map_size, page);
    if (getcontext(&f->self))
        abort();

    f->self_side.stack_bottom = f->map + page;
    f->self_side.stack_size = stack;
    announce_new(&f->self_side);
    f->self.uc_stack.ss_sp = f->map + page;
    f->self.uc_stack.ss_size = stack;
    f->self.uc_link = NULL;
    makecontext(&f->self, entry, 0);
    return f;
}

bool fibre_resume(struct fibre *f)
{
    assert(!current);
    if (f->ended)
        return false;
    current = f;
    announce_leave(&f->resumer_side, &f->self_side, false);
    switch_in(f);
    announce_arrival(&f->resumer_side, &f->self_side);
    current = NULL;
    return !f->ended;
}

void fibre_yield(void)
{
    struct fibre *f = current;
    assert(f);
    announce_leave(&f->self_side, &f->resumer_side, false);
    switch_out(f);
    announce_arrival(&f->self_side, &f->resumer_side);
}

struct fibre *fibre_current(void)
{
    return current;
}

void fibre_free(struct fibre *f)
{
    if (!f)
        return;
    assert(f != current);
    announce_free(&f->self_side);
    let_stack_go(f->map, f->map_size);
    free(f);
}
