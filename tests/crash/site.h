/* site.h -- what the crash tests share: callbacks delivered over real connections, a record of
 * which were acknowledged, and the question whether everything acknowledged is in the database. */
#ifndef FENPAY_CRASH_SITE_H
#define FENPAY_CRASH_SITE_H

#include "bench/bench.h"

#define SITE_PAYMENTS 400

struct barrage {
    int port;
    const struct str *requests;
    size_t count;
    _Atomic bool *acknowledged; /* one a request */
    _Atomic size_t next, acked;
    size_t stop_after; /* kill_pid gets SIGKILL when so many were acknowledged; 0: never */
    int kill_pid;
};

/* Delivers from 8 connections until all are answered or the server is gone. */
void deliver(struct barrage *d);

/* Of the acknowledged ones, how many are NOT a SUCCESS payment with a done callback row in the
 * database `url`. */
size_t lost(const struct bench_site *b, struct str url, const struct barrage *d);

#endif
