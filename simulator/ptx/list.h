/* Lists that grow by doubling. */
#ifndef SIM_PTX_LIST_H
#define SIM_PTX_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_LIST = 2, LONG_LIST = 64 }; /* the first room of lists that mostly are short, or long */

/* Makes room for one more element in a list with `count`, of which `room` fit, `first` at first; `list` is the
 * address of the pointer to its elements, of `size` bytes.  The new room is not cleared.  False: no memory, and
 * the list is as before. */
static inline bool list_grow(void *list, size_t count, uint32_t *room, size_t size, uint32_t first) {
    void *elements;
    if (count < *room) {
        return true;
    }
    const uint32_t more = *room == 0 ? first : 2 * *room;
    memcpy(&elements, list, sizeof elements);
    elements = realloc(elements, more * size);
    if (elements == NULL) {
        return false;
    }
    memcpy(list, &elements, sizeof elements);
    *room = more;
    return true;
}
#define LIST_GROW(list, count, room) list_grow((void *)&(list), count, &(room), sizeof *(list), SHORT_LIST)

#endif
