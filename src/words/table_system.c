/* table_system.c -- what system and libraries say, where we pass it on and it is common. The rest
 * stays as it comes. */
#include "words/tables.h"

/* clang-format off */
const struct words_pair words_system[] = {
    /* the C library */
    { "No such file or directory", "没有那个文件或目录" },
    { "Permission denied", "权限不够" },
    { "Is a directory", "是一个目录" },
    { "Not a directory", "不是目录" },
    { "File exists", "文件已存在" },
    { "No space left on device", "设备上没有空间" },
    { "Read-only file system", "只读文件系统" },
    { "Too many open files", "打开的文件过多" },
    { "Input/output error", "输入/输出错误" },
    { "Address already in use", "地址已被占用" },
    { "Cannot assign requested address", "无法使用该地址" },
    { "Resource temporarily unavailable", "资源暂时不可用" },
    { "Cannot allocate memory", "无法分配内存" },
    { "Name or service not known", "未知的名称或服务" },
    { "Temporary failure in name resolution", "域名解析暂时失败" },

    /* libyaml */
    { "mapping values are not allowed in this context", "此处不能出现键值对" },
    { "did not find expected key", "此处应为键" },
    { "did not find expected '-' indicator", "此处应为 '-'" },
    { "did not find expected ',' or ']'", "此处应为 ',' 或 ']'" },
    { "did not find expected ',' or '}'", "此处应为 ',' 或 '}'" },
    { "did not find expected node content", "此处缺少内容" },
    { "did not find expected <document start>", "此处应为文档开头" },
    { "could not find expected ':'", "缺少 ':'" },
    { "found character that cannot start any token", "此处的字符不合法（缩进不能用制表符）" },
    { "found unexpected end of stream", "文件意外结束" },
    { "found undefined tag handle", "未定义的标签" },
    { "found undefined alias", "未定义的引用" },
    { "block sequence entries are not allowed in this context", "此处不能出现列表项" },
    { "control characters are not allowed", "不能含有控制字符" },
    { "invalid leading UTF-8 octet", "不是合法的 UTF-8" },
    { "invalid trailing UTF-8 octet", "不是合法的 UTF-8" },
    { "incomplete UTF-8 octet sequence", "UTF-8 字符不完整" },

    /* libcurl, SQLite */
    { "Could not resolve host: %s", "无法解析主机：%s" },
    { "Failed to connect to %s port %d after %d ms: %s", "连接 %s 端口 %d 失败，用时 %d 毫秒：%t" },
    { "Couldn't connect to server", "无法连接服务器" },
    { "Operation timed out after %d milliseconds with %d bytes received", "超时：%d 毫秒内收到 %d 字节" },
    { "Connection timed out after %d milliseconds", "连接超时：%d 毫秒" },
    { "Empty reply from server", "服务器没有应答" },
    { "Connection reset by peer", "连接被对方重置" },
    { "unable to open database file", "无法打开数据库文件" },
    { "database is locked", "数据库被锁定" },
    { "file is not a database", "文件不是数据库" },
    { "database disk image is malformed", "数据库文件已损坏" },
    { "attempt to write a readonly database", "数据库是只读的" },
    { "database or disk is full", "数据库或磁盘已满" },
    { NULL, NULL },
};
/* clang-format on */
