/* load.h -- a load generator: one thread, many kept connections, requests prepared beforehand,
 * latencies of every single one.
 *
 * Closed loop: each connection sends its next request when the answer has come. Open loop: requests
 * fall due at a fixed rate, and latency counts from the moment a request was due, so that a stall
 * of the server is seen by everybody who would have come meanwhile. */
#ifndef FENPAY_LOAD_H
#define FENPAY_LOAD_H

#include "base/err.h"
#include "base/str.h"

struct load {
    int port;
    unsigned connections;
    const struct str *requests; /* sent in this order, each once */
    size_t count;
    int64_t rate_per_s; /* 0: closed loop */
    int64_t limit_ms;   /* gives up after that long; 0: 5 minutes */
};

struct load_result {
    int64_t took_us;
    size_t answered, good; /* good: 2xx */
    int64_t rate_per_s;
    int64_t p50_us, p99_us, p999_us, max_us;
};

enum err load_run(const struct load *load, struct load_result *ret, struct err_info *info);

#endif
