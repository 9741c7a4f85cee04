/* test_load.c -- the real binary killed again and again at arbitrary moments (of a seed) under
 * mixed load: merchants on all paths at once, callbacks, webhooks and jobs. After each death what
 * was acknowledged is there, and in the end everything agrees with the channel's books.
 *
 * test_load [ROUNDS [SEED]] */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/rand.h"
#include "life.h"

#define MERCHANTS  4
#define DEATHS     6
#define LIVES_EACH 40 /* of one merchant, over all deaths */
#define LIVES      (MERCHANTS * LIVES_EACH)

static struct place place;
static struct life lives[LIVES];
static int rounds = 1;
static uint64_t seed = 42;

struct merchant {
    struct place *p;
    struct life *lives;
    size_t upto;       /* how many of its lives it begins before this death */
    _Atomic int *left; /* of all merchants: lives until the process dies */
    pthread_t thread;
};

static void *merchant_main(void *arg)
{
    struct merchant *m = arg;
    for (size_t i = 0; i < m->upto; i++) {
        struct life *l = &m->lives[i];
        if (l->over)
            continue;
        if (life_drive(m->p, l) == DRIVE_GONE)
            break;
        if (--*m->left == 0)
            kill(m->p->server.pid, SIGKILL);
    }
    return NULL;
}

/* All merchants go on with what they have; the process dies after `left` lives came to their end
 * (0: it does not). */
static void live(struct place *p, size_t upto, int left)
{
    struct merchant m[MERCHANTS];
    _Atomic int until = left;
    for (size_t i = 0; i < MERCHANTS; i++) {
        m[i] = (struct merchant) {
            .p = p, .lives = &lives[i * LIVES_EACH], .upto = upto, .left = &until
        };
        assert_int_equal(pthread_create(&m[i].thread, NULL, merchant_main, &m[i]), 0);
    }
    for (size_t i = 0; i < MERCHANTS; i++)
        pthread_join(m[i].thread, NULL);
}

static void one_round(struct place *p, struct rand *r)
{
    static const struct path *const paths[] = { &path_pay,   &path_lost_answer, &path_pay,
                                                &path_late,  &path_switch,      &path_close,
                                                &path_cancel };
    for (int i = 0; i < LIVES; i++)
        lives[i] =
            (struct life) { .path = paths[rand_below(r, sizeof paths / sizeof *paths)], .n = i };
    place_begin(p);
    for (size_t death = 0; death < DEATHS; death++) {
        place_start(p, NULL);
        live(p, (death + 1) * LIVES_EACH / (DEATHS + 1),
             1 + (int)rand_below(r, LIVES / (DEATHS + 1) - MERCHANTS));
        place_wait_killed(p);
        audit_acknowledged(p, lives, LIVES);
        place_move_clock(p, 2 * 60 * 1000);
    }
    place_start(p, NULL);
    live(p, LIVES_EACH, 0);
    audit_rest(p, lives, LIVES, DEATHS * MERCHANTS);
    if (p->complaint[0])
        fail_msg("seed %llu: %s", (unsigned long long)seed, p->complaint);
}

static void at_arbitrary_moments(void **state)
{
    (void)state;
    for (int i = 0; i < rounds; i++, seed++) {
        struct rand r;
        rand_seed(&r, seed);
        one_round(&place, &r);
        place_end(&place);
    }
}

static int make(void **state)
{
    (void)state;
    return place_make(&place, "load", 0) ? 0 : -1;
}
static int drop(void **state)
{
    (void)state;
    place_drop(&place);
    return 0;
}
static int end(void **state)
{
    (void)state;
    place_end(&place);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(at_arbitrary_moments, end),
    };
    if (argc > 1)
        rounds = (int)strtol(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("crash/load", tests, make, drop);
}
