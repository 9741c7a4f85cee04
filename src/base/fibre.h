/* fibre.h -- cooperative fibres (ucontext) for the simulator: many straight-line flows in one
 * thread, switched only where they yield. Production code never makes one. Works under ASan and
 * TSan (switches are announced to them). */
#ifndef FENPAY_FIBRE_H
#define FENPAY_FIBRE_H

#include <stdbool.h>
#include <stddef.h>

struct fibre;

typedef void fibre_fn(void *arg);

/* With a guard page below the stack. */
struct fibre *fibre_new(fibre_fn *fn, void *arg, size_t stack_bytes);
/* Runs `f` until it yields or ends; false when it has ended. Called from outside any fibre. */
bool fibre_resume(struct fibre *f);
void fibre_yield(void);            /* from inside a fibre: back to whoever resumed it */
struct fibre *fibre_current(void); /* NULL outside */
/* Drops a fibre, finished or not: what its stack owned is not released (a simulated process death;
 * it lives in arenas). */
void fibre_free(struct fibre *f);

#endif
