/* How many bytes of pages a callback writes: what decides the rate (systems.md F5). Callbacks of
 * realistic size, arriving in random order for payments that were made long before, in group
 * commits of several sizes; counted as frames of the write-ahead log. */
#include "../flow_world.h"

#include "core/order/order.h"

#define PAYMENTS  4000
#define CALLBACKS 600

/* The aim for one callback in a commit of its own, cold and shuffled: 7 pages of 4 KB, which were
 * the store's pages when it was set. In bytes, because a smaller page makes more of them and less
 * to write (docs/decisions.md). */
#define AIM_PAGES   7
#define AIM_PAGE_KB 4

struct delivery {
    struct store_job job;
    struct callback_input in;
};

static void done(struct store_job *job, enum store_outcome outcome, const struct err_info *info)
{
    (void)job;
    (void)info;
    assert_int_equal(outcome, STORE_COMMITTED);
}

static void shuffle(struct attempt *list, size_t n)
{
    struct rand r;
    rand_seed(&r, 42);
    for (size_t i = n - 1; i > 0; i--) {
        size_t k = rand_below(&r, i + 1);
        struct attempt t = list[i];
        list[i] = list[k];
        list[k] = t;
    }
}

/* As large as WeChat's: 1.3 KB of body, 0.6 KB of headers that matter, 0.6 KB of plain text. */
static void submit(struct flow_world *f, struct delivery *d, struct number pay_no)
{
    char *filler = arena_alloc(f->w.arena, 1300);
    memset(filler, 'c', 1300);
    struct str text = notice_text(f->w.arena, "ok", "PAID", pay_no,
                                  str_printf(f->w.arena, "42000%020llu",
                                             (unsigned long long)pay_no.id * 0x9e3779b97f4a7c15ULL)
                                      .p,
                                  8800);

    d->in = flow_input(f, f->account, text);
    d->in.body = (struct str) { filler, 1300 };
    d->in.headers_text = (struct str) { filler, 600 };
    d->in.notice.plain = (struct str) { filler, 600 };
    store_job_init(&d->job, f->w.env, f->w.mint, CALLBACK_IDS);
    d->job.name = "callback";
    d->job.class = STORE_CALLBACK;
    d->job.rule = callback_rule;
    d->job.arg = &d->in;
    d->job.done = done;
    assert_true(store_reserve(f->w.store, &d->job));
    store_submit(f->w.store, &d->job);
}

static int64_t log_frames(struct flow_world *f)
{
    struct store_stats stats;
    store_stats(f->w.store, &stats);
    return stats.wal_frames;
}

static double kb_each(struct flow_world *f, const struct attempt *list, size_t batch)
{
    struct delivery *d = arena_array(f->w.arena, batch, sizeof *d);
    int64_t frames = 0;

    for (size_t i = 0; i < CALLBACKS; i += batch) {
        size_t n = CALLBACKS - i < batch ? CALLBACKS - i : batch;
        int64_t before = log_frames(f);
        for (size_t k = 0; k < n; k++)
            submit(f, &d[k], list[i + k].pay_no);
        assert_int_equal(store_turn(f->w.store, n), n);
        int64_t after = log_frames(f);
        frames +=
            after > before ? after - before : after; /* it starts from the front when copied */
        env_test_advance(&f->w.test, 2);
    }
    int64_t page = ASK(&f->w, "SELECT page_size FROM pragma_page_size");
    print_message("# %zu callbacks a commit: %.1f pages of %lld KB each\n", batch,
                  (double)frames / CALLBACKS, (long long)page / 1024);
    return (double)frames * (double)page / 1024 / CALLBACKS;
}

static void few_bytes_each(void **state)
{
    (void)state;
    static struct attempt list[PAYMENTS];
    static const struct {
        size_t batch;
        double most; /* KB */
    } rows[] = { { 1, AIM_PAGES * AIM_PAGE_KB }, { 8, 15 }, { 64, 10 } };
    struct flow_world f;
    flow_world_open(&f, false);
    flow_attempts(&f, list, PAYMENTS);
    shuffle(list, PAYMENTS);
    for (size_t i = 0; i < COUNT(rows); i++) {
        double kb = kb_each(&f, list + i * CALLBACKS, rows[i].batch);
        print_message("# %.1f KB, at most %.0f\n", kb, rows[i].most);
        assert_true(kb <= rows[i].most);
    }
    assert_int_equal(ASK(&f.w, "SELECT count(*) FROM payment_order WHERE status = 2"),
                     COUNT(rows) * CALLBACKS);
    flow_world_close(&f);
}

/* 4,000 open payments are eight pages: between two of them the log may start again. */
static void long_scans_leave_pauses(void **state)
{
    (void)state;
    static struct attempt list[PAYMENTS];
    struct flow_world f;
    struct err_info info = { 0 };
    size_t repaired;
    flow_world_open(&f, false);
    flow_attempts(&f, list, PAYMENTS);
    int64_t before = env_now_ms(f.w.env);
    assert_int_equal(order_settle_sweep(&f.c, 100, &repaired, &info), ERR_OK);
    assert_true(env_now_ms(f.w.env) - before >= 7 * STORE_READ_PAUSE_MS);
    flow_world_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(few_bytes_each),
                                        cmocka_unit_test(long_scans_leave_pauses) };
    return RUN_TESTS(tests);
}
