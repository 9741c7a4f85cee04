/* intake.h -- one callback on its way in, whatever carried it: read, stored, answered. The listener
 * and the simulator go the same way.
 *
 * The owner fills centre, account (referenced), body and trace_id of `in`, and keeps everything,
 * headers and arena included, until the answer is given. Nothing here blocks. */
#ifndef FENPAY_INTAKE_H
#define FENPAY_INTAKE_H

#include "core/callback/callback.h"

struct intake {
    struct centre *centre;
    struct callback_input in;
    struct store_job store; /* `done` is the owner's */
    struct err_info info;
    enum notice_answer answer;
    bool keep_only; /* our rule failed: only its bytes are stored now */
};

/* True: `store` is to be handed in. Else `answer` is all there is to say. */
bool intake_read(struct intake *k, const struct http_headers *headers, struct arena *a,
                 enum notice_result *ret);
/* What became of it. True: `store` is to be handed in once more. Else `answer` is what to say. */
bool intake_stored(struct intake *k, enum store_outcome outcome, const struct err_info *info);

/* What came with the body, for verifying it again one day. */
struct str intake_headers_text(struct arena *a, const struct http_headers *headers);

#endif
