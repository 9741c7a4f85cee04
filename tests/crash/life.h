/* life.h -- the merchant's side of one order, from the first request to its end, along one path;
 * and the books afterwards.
 *
 * A life can be driven again from wherever it stopped: it repeats its requests as a merchant does
 * who got no answer. What was acknowledged to it is written down, to be looked for afterwards. */
#ifndef FENPAY_LIFE_H
#define FENPAY_LIFE_H

#include "place.h"

enum drive {
    DRIVE_OVER,  /* it came to its end, or cannot go on (a complaint) */
    DRIVE_AGAIN, /* later */
    DRIVE_GONE,  /* nobody answered */
};

struct life;
struct path {
    const char *name;
    enum drive (*drive)(struct place *p, struct life *l, struct arena *a);
    int prepays; /* at the channel, in a life without accidents */
};
extern const struct path path_pay, path_lost_answer, path_query, path_switch, path_close,
    path_cancel, path_late, path_late_asked;

struct life {
    const struct path *path;
    int n; /* its name at the merchant's */
    int stage;
    char order_no[33], pay_no[33];
    bool started, credentials, paid, closed, cancelled, refunded; /* acknowledged */
    bool over;
};

/* Until it is over or nobody answers; between two tries the clock moves. */
enum drive life_drive(struct place *p, struct life *l);

/* Before the restart: what was acknowledged, to the merchant and to the channel, stands in the
 * database, and whoever was told of an event was told of one that is there. */
void audit_acknowledged(struct place *p, const struct life *lives, size_t n);
/* Waits, moving the clock, until nothing is left to do; then compares everything with the
 * channel's books and with what the webhooks brought. `accidents`: calls under way when it was
 * killed, which may have been made once more. */
void audit_rest(struct place *p, const struct life *lives, size_t n, int accidents);

#endif
