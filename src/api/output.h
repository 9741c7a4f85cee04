/* output.h -- how things look on the wire. Each printer writes the members of one open object (or a
 * whole element): numbers are text, amounts integers of fen, times RFC 3339 at +08:00, what is not
 * known is left out. */
#ifndef FENPAY_API_OUTPUT_H
#define FENPAY_API_OUTPUT_H

#include "base/json.h"
#include "core/incident/incident.h"
#include "core/payment/payment.h"
#include "core/order/order.h"
#include "core/refund/refund.h"

void output_number(struct json_out *o, const char *key,
                   struct number no); /* nothing for "no number" */
void output_time(struct json_out *o, const char *key, int64_t ms,
                 struct arena *a); /* nothing for 0 */
void output_money(struct json_out *o, const char *key, struct money m);

void output_order(struct json_out *o, const struct order *order, bool items,
                  struct arena *a); /* members */
void output_payment(struct json_out *o, const struct payment *payment,
                    struct arena *a); /* members */
/* Members. One that was stored and not yet taken by the channel is PROCESSING, too: to a caller it
 * is the same. */
void output_refund(struct json_out *o, const struct refund *refund, struct arena *a);
void output_incident(struct json_out *o, const struct incident_row *row,
                     struct arena *a); /* an element */
void output_incident_members(struct json_out *o, const struct incident_row *row, struct arena *a);
void output_proposal(struct json_out *o, const struct incident_proposal *p,
                     struct arena *a); /* the member "proposal" */

/* "none", "refunding", "part", "refunded": derived (rules.md section 5 keeps it out of the status).
 */
const char *output_refund_state(const struct payment *payment);

#endif
