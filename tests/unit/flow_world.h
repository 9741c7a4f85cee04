/* flow_world.h -- a centre over the test database with one or two accounts of a made-up channel,
 * whose notices, queries and answers a test writes by hand.
 *
 * A notice of the made-up channel is text: "PAID|pay_no|transaction|amount|key" (other words: SHUT,
 * FAILED, HELLO, REFUND), behind a first line of its own: "ok", "raw", "later", "bad" or "stale".
 */
#ifndef FENPAY_TEST_FLOW_WORLD_H
#define FENPAY_TEST_FLOW_WORLD_H

#include "world.h"

#include "channel/registry.h"
#include "core/callback/callback.h"
#include "core/order/order.h"
#include "core/order/order_sql.h"
#include "core/payment/payment.h"
#include "core/payment/payment_sql.h"

/* What the made-up channel says next; one for all accounts. */
struct fake_channel {
    _Atomic int notices, queries, refreshes;
    _Atomic bool undecryptable; /* every notice is RAW_ONLY */
    enum channel_outcome query_outcome;
    struct fact query_facts[2];
    size_t query_fact_count;
    int64_t key_not_after_ms;
    struct registry *registry;
    struct account *while_refreshing; /* put into `registry` while the channel is asked, once */
    void (*while_asked)(void *arg);   /* on each query, before it is answered */
    void *while_asked_arg;
    struct learnt_key learnt; /* what a refresh brings; no serial: nothing */
};
extern struct fake_channel fake_channel;

struct flow_world {
    struct world w;
    struct centre c;
    struct account *account, *other;
    int keys_wanted;
};

void flow_world_open(struct flow_world *f, bool threads);
void flow_world_close(struct flow_world *f);

/* A test of one such centre: `struct flow_world *f = *state`. */
int flow_set_up(void **state);
int flow_tear_down(void **state);
#define FLOW_TEST(name) cmocka_unit_test_setup_teardown(name, flow_set_up, flow_tear_down)

/* An account of the made-up channel, for a registry. Its contract is the merchant. */
struct account *flow_account(const char *name, const char *merchant);

/* An order of 8,800 fen with one attempt in PAYING at account "fake", both with their journal. */
struct attempt {
    struct number order_no, pay_no;
};
struct attempt flow_attempt(struct flow_world *f, const char *merchant_order_no);
/* The same n times, a hundred a rule. */
void flow_attempts(struct flow_world *f, struct attempt *ret, size_t n);
struct payment flow_payment(struct flow_world *f, struct number pay_no); /* texts in f->w.arena */
struct order flow_order(struct flow_world *f, struct number order_no);

/* The notice's text. */
struct str notice_text(struct arena *a, const char *verdict, const char *word, struct number pay_no,
                       const char *transaction, int64_t fen);

/* Reads the notice with the account's driver and prepares the rule's argument. */
struct callback_input flow_input(struct flow_world *f, struct account *account, struct str text);
/* The whole way of one delivery through the rule; asserts that it committed. */
struct callback_input flow_callback(struct flow_world *f, struct account *account, struct str text);

#endif
