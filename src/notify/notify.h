/* notify.h -- the listener for channels' callbacks: POST /notify/{account}. Never blocks; see
 * notify.c for the way of one callback. */
#ifndef FENPAY_NOTIFY_H
#define FENPAY_NOTIFY_H

#include "core/callback/callback.h"
#include "net/server.h"

struct notify_service;

/* behind_proxy: every peer is the proxy, so no address is refused for its forgeries. */
struct notify_service *notify_new(struct centre *centre, bool behind_proxy);
void notify_free(struct notify_service *s);
extern const struct http_route notify_routes[];
/* Job step: writes the ring's samples of rejected deliveries to callback_reject (bounded). */
enum err notify_flush_rejects(struct notify_service *s, struct err_info *info);

#endif
