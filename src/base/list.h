/* list.h -- intrusive doubly linked list; a node is in at most one list. */
#ifndef FENPAY_LIST_H
#define FENPAY_LIST_H

#include <stdbool.h>
#include <stddef.h>

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}
static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}
static inline void list_append(struct list *l, struct list *node)
{
    node->prev = l->prev;
    node->next = l;
    l->prev->next = node;
    l->prev = node;
}
/* Taking a node out leaves it pointing to itself, so removing twice is harmless. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = node->next = node;
}
static inline struct list *list_take_first(struct list *l)
{
    if (list_empty(l))
        return NULL;
    struct list *node = l->next;
    list_remove(node);
    return node;
}

#define list_each(node, l) for (struct list *node = (l)->next; node != (l); node = node->next)
/* The body may remove `node`. */
#define list_each_safe(node, l)                                                                    \
    for (struct list *node = (l)->next, *node##_next = node->next; node != (l);                    \
         node = node##_next, node##_next = node->next)

#endif
