/* jobs.c -- what runs inside a process by itself: the scheduler's jobs under their leases, the bus,
 * and in some seeds the same work once more without any lease, because nothing may hang on them. */
#include "sim/inner.h"

#include "core/callback/callback.h"
#include "core/order/order.h"
#include "core/payment/flow.h"
#include "core/refund/refund.h"
#include "job/job.h"

typedef enum err turn_fn(struct sim_process *p, size_t *ret_done, struct err_info *info);

struct loop {
    turn_fn *turn;
    const char *name;
    int64_t every_ms; /* about */
};

static enum err turn_jobs(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return scheduler_turn(p->scheduler, ret_done, info);
}
static enum err turn_bus(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return bus_turn(p->bus, ret_done, info);
}
static enum err turn_deliveries(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return bus_deliver_turn(p->bus, ret_done, info);
}
static enum err turn_payments(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return payment_due_turn(&p->centre, 100, ret_done, info);
}
static enum err turn_refunds(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return refund_due_turn(&p->centre, 100, ret_done, info);
}
static enum err turn_orders(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return order_due_turn(&p->centre, 500, ret_done, info);
}
static enum err turn_callbacks(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return callback_due_turn(&p->centre, 64, ret_done, info);
}
static enum err turn_settle(struct sim_process *p, size_t *ret_done, struct err_info *info)
{
    return order_settle_sweep(&p->centre, 500, ret_done, info);
}

static const struct loop jobs_loop = { turn_jobs, "jobs", 1500 };
static const struct loop bus_loop = { turn_bus, "bus", 500 };
static const struct loop deliveries_loop = { turn_deliveries, "deliveries", 10000 };
static const struct loop leaseless_loops[] = {
    { turn_payments, "payments", 5000 }, { turn_refunds, "refunds", 5000 },
    { turn_orders, "orders", 10000 },    { turn_callbacks, "callbacks", 20000 },
    { turn_settle, "settle", 60000 },
};

struct running {
    const struct loop *loop;
    struct sim_process *process;
};

/* Around its pace; once all is well, ever more slowly while there is nothing to do. */
static void loop_main(struct sim *s, void *arg)
{
    const struct running *r = arg;
    const struct loop *loop = r->loop;
    int64_t pause = loop->every_ms;
    for (;;) {
        struct err_info info = { 0 };
        size_t done = 0;
        if (loop == &bus_loop && !s->healed)
            pause = s->temper.bus_ms;
        sim_sleep(s, 1 + sim_below(s, 2 * pause));
        enum err e = loop->turn(r->process, &done, &info);
        if (e && e != ERR_BUSY && !store_failed(r->process->centre.store))
            sim_fail(s, (struct number) { 0 }, "%s: %s %s", loop->name, err_name(e), info.text);
        if (done)
            sim_note(s, "done", (int64_t)done);
        pause = s->healed && !done && pause < SIM_PAUSE_MAX_MS ? pause * 2 : loop->every_ms;
        if (pause > SIM_PAUSE_MAX_MS)
            pause = SIM_PAUSE_MAX_MS;
    }
}

static void start(struct sim_process *p, const struct loop *loop)
{
    struct running *r = arena_one(p->sim->arena, struct running);
    *r = (struct running) { loop, p };
    sim_spawn(p->sim, loop->name, p->node, loop_main, r);
}

void sim_jobs_start(struct sim_process *p)
{
    const struct sim_temper *t = &p->sim->temper;
    for (unsigned i = 0; i < t->job_workers; i++)
        start(p, &jobs_loop);
    start(p, &bus_loop);
    if (t->webhook || t->consumer_permille)
        start(p, &deliveries_loop);
    for (size_t i = 0; t->leaseless && i < sizeof leaseless_loops / sizeof *leaseless_loops; i++)
        start(p, &leaseless_loops[i]);
}
