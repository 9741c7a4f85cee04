/* flow_fake.h -- payments as told, in place of core/payment's flows: the API is tested without a
 * channel. One payment at a time; thread-safe as far as the tests need it. */
#ifndef FENPAY_TEST_FLOW_FAKE_H
#define FENPAY_TEST_FLOW_FAKE_H

#include "core/payment/flow.h"

#include <pthread.h>

struct flow_fake {
    pthread_mutex_t lock;
    struct payment payment; /* what there is; texts are static */
    enum payment_started how;
    struct refusal refusal; /* code 0: success */
    bool closing, client;
    int starts;
    /* what payment_start was given */
    struct payment_new asked;
    char asked_texts[1024];
};
extern struct flow_fake flow_fake;

#endif
