#ifndef PS_COMMON_BASE_LIST_H
#define PS_COMMON_BASE_LIST_H
/*
 * base/list.h — an intrusive doubly linked ring. The head is a node of its own.
 *
 * An element is in at most one list per node. `ps_list_remove` leaves the node empty, so removing
 * twice is harmless and `ps_list_empty(&node)` answers "is it in a list?".
 */
#include <stdbool.h>

struct ps_list {
    struct ps_list *prev;
    struct ps_list *next;
};

static inline void ps_list_init(struct ps_list *node)
{
    node->prev = node;
    node->next = node;
}

static inline bool ps_list_empty(const struct ps_list *head)
{
    return head->next == head;
}

/** Put `node` last in the list of `head`. */
static inline void ps_list_append(struct ps_list *head, struct ps_list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void ps_list_remove(struct ps_list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    ps_list_init(node);
}

/* A name that is declared cannot stand in parentheses. */
/* NOLINTBEGIN(bugprone-macro-parentheses) */
#define ps_list_for_each(at, head) \
    for (struct ps_list *at = (head)->next; at != (head); at = (at)->next)

/** As above; `at` may be removed in the body. */
#define ps_list_for_each_safe(at, after, head)                                 \
    for (struct ps_list *at = (head)->next, *after = (at)->next; at != (head); \
         at = after, after = (at)->next)
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
