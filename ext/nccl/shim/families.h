/* Ids of communicators that come from others.
 *
 * Virtual members cannot say which part of a split they want to be in. So whoever knows it says so beforehand: what
 * such a communicator means is told to the engine (prism_device_identify) under an id that is made of its parent's.
 */

#ifndef PRUNED_SHIM_FAMILIES_H
#define PRUNED_SHIM_FAMILIES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of the members that give this colour to ncclCommSplit(). */
__attribute__((visibility("default"))) void prism_device_split_id(const uint8_t parent[128], int32_t color,
                                                                  uint8_t child[128]);
/* Of those that are left when ncclCommShrink() excludes `count` members, in any order. */
__attribute__((visibility("default"))) void prism_device_shrink_id(const uint8_t parent[128], const int32_t* excluded,
                                                                   int32_t count, uint8_t child[128]);

#ifdef __cplusplus
}
#endif

#endif
