/* words.c -- the table of what the commands say to people, English and Chinese. */
#include "app/words.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const struct {
    const char *en, *zh;
} words[] = {
    /* commands */
    { "a payment centre in one binary", "一个二进制文件的支付中心" },
    { "fenpay COMMAND --help tells the options of a command.", "fenpay 命令 --help 查看该命令的选项。" },
    { "no command named '%s'", "没有名为 '%s' 的命令" },
    { "Runs the payment centre", "运行支付中心" },
    { "Creates the database or brings its schema up to date", "创建数据库或升级其结构" },
    { "Runs a stand-in for the payment channels, with faults on demand", "运行渠道沙箱，可按需注入故障" },
    { "Plays whole lives of payments against the sandbox and checks them", "对着沙箱演示完整的支付过程并逐一核对" },
    { "Checks configuration, keys, clock and database: a line and a verdict each", "检查配置、密钥、时钟和数据库，逐项给出结论" },
    { "Everything that ever happened to an order or payment, in time order", "按时间列出一笔订单或支付发生过的一切" },
    { "Handles a stored callback (C…) or delivers an event (E…) again", "重新处理已存储的回调（C…）或重新投递事件（E…）" },
    { "Why does this signature not verify: which part differs", "验签为什么失败：是哪一部分不同" },
    { "Callers and their keys: list, add, keys, key, revoke, on, off", "接入方及其密钥：list、add、keys、key、revoke、on、off" },
    { "Subscribers of events: list, add, rotate, on, off", "事件订阅：list、add、rotate、on、off" },
    { "What needs a person: list, show, resolve, withdraw", "需要人工处理的异常单：list、show、resolve、withdraw" },
    { "Checks the configuration, or describes every setting", "检查配置，或说明每个配置项" },
    { "Makes a master key; encrypts or decrypts values for the configuration", "生成主密钥；加密或解密配置值" },
    { "Measures this machine: callbacks, payments, reads, delivery", "测量本机性能：回调、支付、查询、投递" },
    { "Plays seeded lives of the whole centre with everything going wrong, and checks them", "按种子模拟整个支付中心的运行，注入各种故障并核对" },
    { "The same seed is the same run. The last line is JSON; a violation prints its story and the command that plays it again.", "相同的种子得到完全相同的过程。最后一行是 JSON；发现问题时打印其经过和重放命令。" },

    { "  list            the callers\n  add NAME        a new caller, with its first key\n  keys NAME       the ids of its keys, never their secrets\n  key NAME        another key; two of a kind can be in use, to change over\n  revoke KEY_ID   ends a key\n  on NAME, off NAME",
      "  list            列出接入方\n  add NAME        新接入方及其第一个密钥\n  keys NAME       列出其密钥的 key id（不含密钥内容）\n  key NAME        再加一个密钥；每种最多同时两个，便于轮换\n  revoke KEY_ID   停用一个密钥\n  on NAME, off NAME   启用、停用" },
    { "  list --caller NAME\n  add URL --caller NAME [--types LIST]   prints its signing secret, once\n  rotate ID --caller NAME                a new secret; the old one signs beside it until the next\n  on ID --caller NAME, off ID --caller NAME",
      "  list --caller NAME                     列出订阅\n  add URL --caller NAME [--types LIST]   签名密钥只显示一次\n  rotate ID --caller NAME                换新密钥，旧密钥同时签名直到下次更换\n  on ID --caller NAME, off ID --caller NAME   启用、停用" },
    { "  list                     those that are open\n  show NO                  one, with what may be done about it\n  resolve ACTION NO…       does it (docs/incidents.md says what each does); much money needs a second person\n  withdraw NO              takes back what waits for a second person",
      "  list                     列出未处理的异常单\n  show NO                  查看一个异常单及可用的处理方式\n  resolve ACTION NO…       执行处理（各方式的含义见 docs/incidents.md）；大额需要第二人复核\n  withdraw NO              撤回等待复核的处理" },
    { "  new       prints a new master key\n  encrypt   reads a text on standard input, prints enc:v1:…, which stands in the configuration instead of it\n  decrypt   the way back\nThe master key is taken from the environment: FENPAY_MASTER_KEY, 64 hex digits.",
      "  new       输出一个新的主密钥\n  encrypt   从标准输入读取文本，输出可写入配置的 enc:v1:…\n  decrypt   反向解密\n主密钥取自环境变量 FENPAY_MASTER_KEY（64 个十六进制字符）。" },

    /* options */
    { "This text", "本说明" },
    { "Where NAME.json and the work files go (default build/bench)", "NAME.json 与工作文件的目录（默认 build/bench）" },
    { "Runs of each; the median is reported (default 3)", "每项运行次数，报告中位数（默认 3）" },
    { "A tenth of the work, to see that it works", "只做十分之一，确认可用" },
    { "Only the HTTP library answering, for comparison; prints its port", "仅 HTTP 库应答，用于对比；打印端口" },
    { "With add (default read,order,pay,refund)", "用于 add（默认 read,order,pay,refund）" },
    { "With key: a signing secret instead of a bearer key", "用于 key：生成签名密钥而不是 Bearer 密钥" },
    { "The file to check (default fenpay.yaml)", "要检查的文件（默认 fenpay.yaml）" },
    { "Print every setting: type, unit, default, meaning", "列出全部配置项：类型、单位、默认值、含义" },
    { "Print what each fact does to a payment and to a refund, and what moves an order", "列出每个事实对支付单和退款单的作用，以及订单的流转" },
    { "As a page of the documentation", "输出为文档页面" },
    { "Only this one", "只运行这一个" },
    { "Only a line a story", "每个故事只打印一行" },
    { "Do not call the channels", "不调用渠道" },
    { "Configuration (default fenpay.yaml)", "配置文件（默认 fenpay.yaml）" },
    { "The folder of `serve --dev` instead of a configuration", "用 `serve --dev` 的目录代替配置文件" },
    { "Print JSON", "输出 JSON" },
    { "Address and port (default 127.0.0.1:8088)", "地址与端口（默认 127.0.0.1:8088）" },
    { "Folder of the dev site whose keys are used, made when missing (default data)", "使用其密钥的试用目录，缺少时自动生成（默认 data）" },
    { "api,notify,relay,consumer,job (default: all; one process a SQLite file, so a split over processes is for later, with MySQL)", "api,notify,relay,consumer,job（默认全部；每个 SQLite 文件只能有一个进程，拆分到多个进程需要以后的 MySQL）" },
    { "No configuration: makes keys, database and a sandbox under --data and says where to click", "无需配置：在 --data 下生成密钥、数据库和沙箱，并提示访问地址" },
    { "With --dev (default data)", "与 --dev 一起使用（默认 data）" },
    { "With --dev: merchant API N, callbacks N+1, ops N+2, sandbox N+3", "与 --dev 一起使用：商户接口 N，回调 N+1，运维 N+2，沙箱 N+3" },
    { "With --dev (default 8080)", "与 --dev 一起使用（默认 8080）" },
    { "With --dev (default 8443)", "与 --dev 一起使用（默认 8443）" },
    { "With --dev (default 9090)", "与 --dev 一起使用（默认 9090）" },
    { "With --dev (default 8088)", "与 --dev 一起使用（默认 8088）" },
    { "The account whose callback it is", "回调所属的渠道账户" },
    { "Its headers, one 'Name: value' a line", "回调的请求头，每行一个 'Name: value'" },
    { "Its body, byte for byte", "回调的原始报文" },
    { "With list: open, resolved or all (default open)", "用于 list：open、resolved 或 all（默认 open）" },
    { "With list: only this kind (PAID_TWICE …)", "用于 list：只列出该类型（PAID_TWICE …）" },
    { "With resolve: why (always needed)", "用于 resolve：处理原因（必填）" },
    { "With resolve adopt: whose payment it becomes", "用于 resolve adopt：归属的接入方" },
    { "These (default 1..200)", "种子范围（默认 1..200）" },
    { "Of each seed (default 40)", "每个种子的支付笔数（默认 40）" },
    { "Processes (default: one a processor)", "进程数（默认每个处理器一个）" },
    { "With --seed: prints every decision", "与 --seed 一起使用：打印每一步决定" },
    { "again:", "重放：" },
    { "seeds are N or A..B, payments 1 to 100000, workers up to 64", "种子为 N 或 A..B，支付笔数 1 到 100000，进程数不超过 64" },
    { "Whose (always needed)", "属于哪个接入方（必填）" },
    { "With add: only these events (payment.success,order.paid …)", "用于 add：只订阅这些事件（payment.success,order.paid …）" },

    /* mistakes on the command line */
    { "too many words:", "多余的参数：" },
    { "unknown option", "未知选项" },
    { "no value belongs to", "该选项不带值：" },
    { "a value is missing behind", "缺少选项的值：" },
    { "not a good value for", "选项的值无效：" },
    { "missing:", "缺少：" },
    { "(see fenpay %s --help)", "（见 fenpay %s --help）" },

    /* explain, verify */
    { "NO is an order (O…), a payment (P…), a callback (C…), an event (E…), an incident (I…) or a merchant_order_no.", "NO 可以是订单号（O…）、支付单号（P…）、回调号（C…）、事件号（E…）、异常单号（I…）或 merchant_order_no。" },
    { "Whose merchant_order_no it is, when several have it", "merchant_order_no 重复时指定接入方" },
    { "a callback %.*s of account %.*s, about '%.*s', which is no number of ours: %.*s", "回调 %.*s，账户 %.*s，涉及 '%.*s'，不是我方单号：%.*s" },
    { "callback %.*s is about %s", "回调 %.*s 涉及 %s" },
    { "event %.*s is about %s", "事件 %.*s 涉及 %s" },
    { "incident %.*s is about %s", "异常单 %.*s 涉及 %s" },
    { "incident %.*s is about none of our numbers", "异常单 %.*s 不涉及我方单号" },
    { "order '%.*s' of %.*s is %s", "订单 '%.*s'（接入方 %.*s）即 %s" },
    { "%zu callers have an order '%.*s': say whose with --caller", "%zu 个接入方有订单 '%.*s'：请用 --caller 指定" },
    { "nothing is known under '%.*s': no number of ours, and no merchant_order_no", "找不到 '%.*s'：既不是我方单号，也不是 merchant_order_no" },
    { "there is no %.*s", "不存在 %.*s" },
    { "there is no order or payment %s", "不存在订单或支付单 %s" },
    { "'%.*s' is no number of a callback (C…)", "'%.*s' 不是回调号（C…）" },
    { "give the number of a stored callback (C…), or --account, --headers and --body", "请给出已存储的回调号（C…），或者 --account、--headers 和 --body" },
    { "no account named '%.*s'", "没有名为 '%.*s' 的账户" },
    { "With the number of a stored callback its bytes are taken as they came in. Else headers and body come from files, for example as your proxy logged them, or as a capture shows them; the body must be unchanged to the byte.", "给出已存储的回调号时使用收到的原始字节。否则请求头和报文来自文件，例如代理日志或抓包；报文必须逐字节不变。" },

    /* callers, webhooks */
    { "no such key: revoke wants a key id, as caller keys NAME lists them", "没有这个密钥：revoke 需要 key id，可用 caller keys 名称 查看" },
    { "--caller NAME says whose webhooks", "请用 --caller 名称 指定接入方" },
    { "no such webhook", "没有这个订阅" },

    /* incidents */
    { "--state is open, resolved or all", "--state 可为 open、resolved 或 all" },
    { "there is no kind named '%.*s'", "没有名为 '%.*s' 的类型" },
    { "%s, by %.*s, until %.*s: %.*s", "%s，由 %.*s 提出，有效至 %.*s：%.*s" },
    { "there is no action named '%.*s' (accept, accept_and_refund, refund, revive, adopt, retry, settled_offline, ignore)", "没有名为 '%.*s' 的处理方式（accept, accept_and_refund, refund, revive, adopt, retry, settled_offline, ignore）" },
    { "--reason says why", "请用 --reason 说明原因" },

    /* doctor */
    { "ok", "正常" },
    { "warn", "注意" },
    { "BAD", "错误" },
    { "configuration", "配置" },
    { "accounts", "渠道账户" },
    { "keys", "密钥" },
    { "channel", "渠道" },
    { "open files", "文件句柄" },
    { "disk", "磁盘" },
    { "clock", "时钟" },
    { "database", "数据库" },
    { "events", "事件" },
    { "secrets", "密钥文件" },
    { "incidents", "异常单" },
    { "%zu account", "%zu 个账户" },
    { "%zu accounts", "%zu 个账户" },
    { "%zu open", "%zu 个未处理" },
    { "%zu open or more", "至少 %zu 个未处理" },
    { "none configured: nothing can be paid", "没有配置账户：无法支付" },
    { "replaced by one that lasts longer", "已被有效期更长的替换" },
    { "no key to verify callbacks with", "没有可用于验签的密钥" },
    { "%lld days left", "剩余 %lld 天" },
    { "a signed question was answered in %lld ms", "签名请求得到应答，用时 %lld 毫秒" },
    { "limit %llu (8192 or more is wanted)", "上限 %llu（建议不低于 8192）" },
    { "%llu MB free beside the database", "数据库所在磁盘剩余 %llu MB" },
    { "%lld waiting, %lld deliveries waiting, %lld dead", "待发布 %lld，待投递 %lld，已放弃 %lld" },

    /* config, migrate */
    { "the database is up to date: %d steps applied", "数据库已是最新：执行了 %d 个步骤" },
    { "fine, %zu account", "正常，%zu 个账户" },
    { "fine, %zu accounts", "正常，%zu 个账户" },
    { "others may read the file of this secret: chmod 600", "其他用户可读取该密钥文件：请 chmod 600" },

    /* demo, dev */
    { "as told", "符合预期" },
    { "NOT as told", "不符合预期" },
    { "%d passed, %d failed", "%d 个通过，%d 个失败" },
    { "Only print the names of the stories", "只列出故事的名称" },
    { "there is no story named '%.*s'; there are:", "没有名为 '%.*s' 的故事，可选：" },
    { "the payer pays", "用户付款" },
    { " (once)", "（一次）" },
    { ", %d times at once", "，同时 %d 次" },
    { "%lld min later", "%lld 分钟后" },
    { "%lld s later", "%lld 秒后" },
    { "the channel behaves again", "渠道恢复正常" },
    { "callbacks and events arrive, due work is done", "回调和事件到达，到期任务执行完毕" },
    { "the process dies and starts again from its database", "进程崩溃，从数据库重新启动" },
    { "the channel's books:", "渠道账上：" },
    { "they do not know it", "没有这笔支付" },
    { "its state there is", "状态为" },
    { "fen it took from the payer:", "实收（分）" },
    { "times it was asked to open the payment:", "收到下单请求次数" },
    { "times it was asked about the payment:", "收到查单请求次数" },
    { "times it was asked to close the payment:", "收到关单请求次数" },
    { "callbacks it sent:", "发送回调次数" },
    { "of those we took:", "其中被我方接收" },
    { "the channel's callbacks get lost on their way", "渠道的回调在途中丢失" },
    { "the channel's callbacks come late", "渠道的回调延迟到达" },
    { "the channel delivers each callback several times", "渠道把每个回调重复投递多次" },
    { "the channel's callbacks overtake each other", "渠道的回调乱序到达" },
    { "a callback arrives whose signature is wrong", "收到签名错误的回调" },
    { "a callback arrives that does not decrypt", "收到无法解密的回调" },
    { "the channel sends a signature probe instead of a callback", "渠道发来的是验签探测而不是回调" },
    { "a callback states another amount than was paid", "回调中的金额与实付不符" },
    { "a callback speaks of another merchant", "回调属于另一个商户" },
    { "a callback is signed with a key nobody knows", "回调用未知的密钥签名" },
    { "the channel does what it is asked, but its answer gets lost", "渠道已受理，但应答丢失" },
    { "the channel neither acts nor answers", "渠道既不受理也不应答" },
    { "the channel cannot be reached", "渠道无法连接" },
    { "the channel refuses", "渠道拒绝" },
    { "the channel answers 500 and does nothing", "渠道返回 500，未受理" },
    { "the channel answers 429 and does nothing", "渠道返回 429，未受理" },
    { "the channel acts, but does not sign its answer", "渠道已受理，但应答没有签名" },
    { "the channel acts, but signs its answer wrongly", "渠道已受理，但应答签名错误" },
    { "the channel acts, but its answer cannot be read", "渠道已受理，但应答无法解析" },
    { "the channel takes another amount from the payer than we asked for", "渠道实收金额与我方请求的不同" },
    { "the channel answers 429, but acts all the same", "渠道返回 429，但已受理" },
    { "the channel takes refunds and does not finish them", "渠道受理退款后一直不完成" },
    { "the channel takes refunds and closes them", "渠道受理退款后关闭" },
    { "the channel's refunds go wrong on their way to the payer", "渠道退款在退给用户途中异常" },
    { "a callback arrives without any signature", "收到没有签名的回调" },
    { "the payer was typing while the payment was closed, and still pays", "关单时用户正在输入密码，之后仍付款成功" },
    { "Fenpay is ready (development: sandbox channel, keys and database in one folder)", "Fenpay 已就绪（试用环境：沙箱渠道，密钥和数据库在同一目录）" },
    { "merchant API", "商户接口" },
    { "your key", "您的密钥" },
    { "phone", "手机付款页" },
    { "(pay there what you ordered here)", "（在那里为这里的订单付款）" },
    { "metrics", "监控指标" },
    { "another port is chosen with --%s-port N, or all four with --port-base N", "可用 --%s-port N 换端口，或用 --port-base N 一次换四个" },
    { "Try:", "试一试：" },
};
/* clang-format on */

bool words_in_chinese(void)
{
    static const char *const names[] = { "LC_ALL", "LC_MESSAGES", "LANG" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return strncmp(value, "zh", 2) == 0;
    }
    return false;
}

const char *word(const char *en)
{
    if (!words_in_chinese())
        return en;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i].en, en) == 0)
            return words[i].zh;
    return en;
}
