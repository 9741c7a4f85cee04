/* metrics_table.c -- every family there is. Label values come in the order given here. A name is a
 * promise to dashboards and alarm rules in ops/: renaming one means looking there. */
#include "base/metrics.h"

const struct metric_def metrics_table[] = {
    { "fenpay_build_info", METRIC_GAUGE, "version", "1, labelled with the version that runs" },

    { "fenpay_http_requests_total", METRIC_COUNTER, "listener,route,code", "Requests answered" },
    { "fenpay_http_request_seconds", METRIC_HISTOGRAM, "listener,route",
      "From complete request to answer" },
    { "fenpay_http_refused_total", METRIC_COUNTER, "listener,reason",
      "Connections and requests refused by limits" },
    { "fenpay_http_connections", METRIC_GAUGE, "listener", "Open connections" },
    { "fenpay_long_polls", METRIC_GAUGE, NULL, "Requests waiting for a payment to change" },

    { "fenpay_channel_calls_total", METRIC_COUNTER, "account,call,outcome", "Calls to channels" },
    { "fenpay_channel_failures_total", METRIC_COUNTER, "account,call,class",
      "Calls refused or unknown" },
    { "fenpay_channel_call_seconds", METRIC_HISTOGRAM, "account,call", "Time a channel took" },
    { "fenpay_key_days_left", METRIC_GAUGE, "account,key",
      "Days until a key or certificate expires" },

    { "fenpay_payments_total", METRIC_COUNTER, "channel,method,outcome",
      "Payments that became final" },
    { "fenpay_paid_unsettled", METRIC_GAUGE, NULL,
      "Paid payments whose order is not settled: must return to 0" },
    { "fenpay_terminal_without_evidence", METRIC_GAUGE, NULL,
      "Final rows without evidence: must be 0" },
    { "fenpay_invariant_violations", METRIC_GAUGE, "rule", "Rows that break a rule: must be 0" },
    { "fenpay_open_attempts", METRIC_GAUGE, NULL, "Payments that are not final" },
    { "fenpay_quarantined", METRIC_GAUGE, NULL, "Payments in quarantine" },
    { "fenpay_incidents_open", METRIC_GAUGE, "kind", "Incidents that wait for a person" },

    { "fenpay_callbacks_received_total", METRIC_COUNTER, "account,kind",
      "Callbacks that verified" },
    { "fenpay_callbacks_rejected_total", METRIC_COUNTER, "account,reason",
      "Callbacks that did not verify" },
    { "fenpay_callbacks_duplicate_total", METRIC_COUNTER, "account", "Callbacks heard before" },
    { "fenpay_callback_seconds", METRIC_HISTOGRAM, "account", "From complete callback to answer" },
    { "fenpay_callback_delay_seconds", METRIC_HISTOGRAM, "account",
      "From payment at the channel to its callback" },

    { "fenpay_events_published_total", METRIC_COUNTER, NULL, "Events published" },
    { "fenpay_events_parked_total", METRIC_COUNTER, NULL,
      "Events of a type this program does not know: must stay 0" },
    { "fenpay_event_publish_delay_seconds", METRIC_HISTOGRAM, NULL,
      "From the rule that emitted an event to its effects" },
    { "fenpay_outbox_backlog", METRIC_GAUGE, NULL, "Events not yet taken by every target" },
    { "fenpay_outbox_oldest_seconds", METRIC_GAUGE, NULL, "Age of the oldest of them" },
    { "fenpay_deliveries_total", METRIC_COUNTER, "target,outcome", "Deliveries of events" },
    { "fenpay_deliveries_dead", METRIC_GAUGE, "target", "Deliveries given up, waiting for replay" },
    { "fenpay_consumer_failures_total", METRIC_COUNTER, "consumer",
      "Events a consumer in the box could not take" },

    { "fenpay_job_runs_total", METRIC_COUNTER, "job,outcome", "Runs of jobs" },
    { "fenpay_job_seconds", METRIC_HISTOGRAM, "job", "Duration of a run" },
    { "fenpay_job_lag_seconds", METRIC_GAUGE, "job", "How late the oldest due piece of work is" },

    { "fenpay_store_batches_total", METRIC_COUNTER, NULL, "Transactions committed" },
    { "fenpay_store_batch_rules_total", METRIC_COUNTER, NULL,
      "Rules in them; divided by batches: the batch size" },
    { "fenpay_store_commit_seconds", METRIC_HISTOGRAM, NULL, "Duration of COMMIT" },
    { "fenpay_store_retries_total", METRIC_COUNTER, "reason", "Rules run again" },
    { "fenpay_store_queue_length", METRIC_GAUGE, "class", "Rules waiting" },
    { "fenpay_store_slow_rules_total", METRIC_COUNTER, "rule",
      "Rules that took more writer time than allowed" },
    { "fenpay_store_slow_reads_total", METRIC_COUNTER, "read",
      "Snapshots held longer than allowed" },
    { "fenpay_store_wal_frames", METRIC_GAUGE, NULL, "Pages in the write-ahead log" },
    { "fenpay_store_wal_limit_total", METRIC_COUNTER, NULL,
      "Times the log outgrew its limit and stopped the writer" },

    { "fenpay_disk_free_bytes", METRIC_GAUGE, "path", "Free space where the data lies" },
    { "process_cpu_seconds_total", METRIC_COUNTER_US, NULL, "CPU time used, user and system" },
    { "process_resident_memory_bytes", METRIC_GAUGE, NULL, "Resident memory" },
    { "process_open_fds", METRIC_GAUGE, NULL, "Open file descriptors" },
};
const size_t metrics_table_count = sizeof(metrics_table) / sizeof(metrics_table[0]);
