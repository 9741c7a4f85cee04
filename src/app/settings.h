/* settings.h -- the one table of all settings: what fenpay.yaml may say (settings.c), from which --describe and docs/configuration.md are made. */
#ifndef FENPAY_SETTINGS_H
#define FENPAY_SETTINGS_H

#include "channel/channel.h"

struct listener_settings {
    struct str listen;
    int64_t    loops, workers, connections_max, per_address_max;
    bool       behind_proxy;
    struct str tls_cert, tls_key; /* file: */
};

struct settings {
    int        environment; /* enum environment */
    struct str name;        /* of the installation: CloudEvents source */
    struct {
        struct str url; /* sqlite:data/fenpay.db */
        int64_t    cache_bytes, wal_bytes_max;
    } store;
    struct listener_settings api, notify, ops;
    struct str               notify_public_url; /* notify.public_url */
    struct str               master_key; /* secret */
    struct {
        int level;
        bool json;
    } log;
    struct {
        int64_t payment_expire_ms, expiring_ms, query_stuck_ms, order_amount_max_fen;
    } payment;
    struct {
        int64_t workers;
        bool    private_addresses;
    } webhook;
    struct {
        int64_t rate_per_s, rate_burst;
    } limits;
    struct {
        int64_t workers;
    } job;
    struct cfg_list accounts; /* struct account_config */
};
extern const struct cfg_key settings_table[];

#endif
