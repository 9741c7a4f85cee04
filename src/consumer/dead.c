/* dead.c -- a delivery that was given up becomes an incident.
 *
 * A consumer in the box that cannot take an event is about that event. A webhook that is gone takes
 * down every event of its caller: one incident a webhook, counting; its own incident.opened event
 * cannot open another one when it dies there, too. */
#include "consumer/consumer.h"

#include "core/incident/incident.h"

enum err consumer_on_dead(struct tx *tx, const struct event *event, struct str target,
                          struct str error, void *ctx, struct err_info *info)
{
    bool webhook = str_starts(target, STR("webhook:"));
    struct incident incident = {
        .kind = INCIDENT_DELIVERY_DEAD,
        .subject = webhook ? (struct number) { .kind = NUMBER_EVENT } : event->no,
        .discriminator = target,
        .caller = event->caller,
        .detail = str_printf(tx_arena(tx), "%s given up: " STR_FMT, event_type_name(event->type),
                             STR_ARG(str_sub(error, 0, 256))),
        .trace_id = event->trace_id,
    };
    (void)ctx;
    return incident_open(tx, &incident, NULL, info);
}
