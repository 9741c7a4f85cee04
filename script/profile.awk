# profile.awk -- attributes each sample of `perf script -F comm,ip,sym` to the first stage below of its thread that has a function
# in the sample's stack. The order is from the inside out: what is special stands before what contains it.
function stage(thread, pattern, name) {
    n++
    of[n] = thread
    like[n] = pattern == "" ? "" : " (" pattern ") "
    label[n] = name
}
function count_one(   i) {
    if (thread == "")
        return
    all++
    for (i = 1; i <= n; i++)
        if (thread ~ of[i] && (like[i] == "" || stack ~ like[i])) {
            samples[i]++
            break
        }
    thread = ""
}
BEGIN {
    stage("^http-notify", "rsa_verify|rsa_verify_parts", "network: RSA-2048 verify")
    stage("^http-notify", "aead_decrypt", "network: AES-256-GCM")
    stage("^http-notify", "json_parse", "network: JSON of notice and resource")
    stage("^http-notify", "wechat_read_notice", "network: the rest of reading a notice (headers, base64, facts)")
    stage("^http-notify", "log_write|log_request|payment_log", "network: log lines")
    stage("^http-notify", "metric_add|metric_observe_us|metrics_get|server_metrics_request", "network: figures")
    stage("^http-notify", "__libc_send|__libc_sendmsg|sendmsg|__x64_sys_sendmsg", "network: sending the answer")
    stage("^http-notify", "__libc_recv|recv|__x64_sys_recvfrom", "network: receiving")
    stage("^http-notify", "epoll_ctl|epoll_wait|poll|__poll|__x64_sys_poll|__x64_sys_epoll_ctl|__x64_sys_epoll_wait", "network: waiting, suspending, resuming")
    stage("^http-notify", "callback_prepare|headers_text.isra.0|headers_text|store_submit|store_reserve|store_job_init", "network: handing to the store")
    stage("^http-notify", "", "network: HTTP (library, head, route, answer)")

    stage("^store$", "tell|callback_done|http_finish_later|tell_committed", "writer: telling the network threads")
    stage("^store$", "fdatasync|__GI_fdatasync|x_sync", "writer: COMMIT, fdatasync")
    stage("^store$", "store_log_after_commit", "writer: checkpoint, the small rest")
    stage("^store$", "sqlite3WalFrames|sqlite3PagerCommitPhaseOne|sqlite3BtreeCommitPhaseOne", "writer: COMMIT, pages into the log")
    stage("^store$", "commit|begin", "writer: BEGIN and COMMIT, the rest")
    stage("^store$", "payment_sql_settled", "bus: settled, on the payment's row")
    stage("^store$", "order_move|order_settle|consume", "bus: the order is settled (reads, row, journal, event)")
    stage("^store$", "publish_rule", "bus: pending, feed, consumed, due")
    stage("^store$", "callback_sql_insert", "rule: callback_insert")
    stage("^store$", "payment_sql_load", "rule: payment_by_id")
    stage("^store$", "payment_sql_success", "rule: payment_success")
    stage("^store$", "journal_sql_insert", "rule: journal_insert_row")
    stage("^store$", "journal_next|journal_hash", "rule: journal hash")
    stage("^store$", "order_sql_merchant_no", "rule: merchant_no_by_id")
    stage("^store$", "outbox_sql_insert", "rule: outbox_insert")
    stage("^store$", "outbox_emit", "rule: outbox_due_insert")
    stage("^store$", "callback_rule", "rule: the rest (facts, event data)")
    stage("^store$", "", "writer: queue and batch")

    stage("^store-log", "sync_file_range|x_sync|fdatasync", "checkpoint: write-back")
    stage("^store-log", "__libc_pread|__libc_pread64|pread64|x_read", "checkpoint: reading the log")
    stage("^store-log", "__libc_pwrite|__libc_pwrite64|pwrite64|x_write", "checkpoint: writing pages")
    stage("^store-log", "", "checkpoint: the rest")
    stage("", "", "other threads (bus, jobs, log writer)")
}
/^[^ \t]/ { count_one(); thread = $1; stack = " "; next }
NF >= 2 { sub(/\+0x[0-9a-f]+$/, "", $2); stack = stack $2 " "; next }
END {
    count_one()
    printf "%-64s %8s %6s\n", "stage", "us", "%"
    for (i = 1; i <= n; i++)
        printf "%-64s %8.1f %6.1f\n", label[i], cpu * samples[i] / all, 100 * samples[i] / all
    printf "%-64s %8.1f %6.1f   (%d samples)\n", "the server", cpu, 100, all
}
