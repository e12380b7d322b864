/* Functions that tensor_kit.py calls by name through ctypes. */
#ifndef TENSORCORE_BATCH_H
#define TENSORCORE_BATCH_H

#include <stdint.h>

struct batch_mma;
struct batch_rule;
struct tmem;

#pragma GCC visibility push(default)
void batch_to_f32(int format, const uint32_t *codes, float *out, int64_t count);
void batch_from_f32(int format, const uint32_t *bits, uint32_t *out, int64_t count, int round, unsigned flags,
                    const uint32_t *random);
int batch_k(const struct batch_rule *r);
int64_t batch_row_bytes(const struct batch_rule *r);
void batch_mma(const struct batch_rule *r, const uint8_t *a, const uint8_t *b, const uint8_t *sfa,
               const uint8_t *sfb, uint32_t *d, int m, int n, int accumulate, int generic);
int batch_isa(const char *name);
int batch_matrix(int wgmma, uint64_t bits, uint32_t out[5], char *text);
int batch_operand(int wgmma, uint64_t bits, int format, int rows, int k, int mn_major, int padded,
                  const uint8_t *smem, uint32_t smem_bytes, uint32_t *chunks, uint8_t *out, int64_t row_stride,
                  char *text);
int batch_instruction(uint32_t bits, int kind, int cta_group, int ws, int scales, int32_t out[20], char *text);
struct tmem *batch_tmem_new(void);
void batch_tmem_free(struct tmem *t);
uint32_t *batch_tmem_words(struct tmem *t);
int batch_alloc(struct tmem *t, uint32_t columns, uint32_t *address, char *text);
int batch_manage(struct tmem *t, int what, uint32_t address, uint32_t columns, char *text);
int batch_access(struct tmem *t, int store, int shape, int num, int pack, uint32_t address, uint32_t half_split,
                 int warp, uint32_t (*registers)[32], int32_t *out, char *text);
int batch_cp(struct tmem *t, int shape, uint32_t address, uint64_t bits, const uint8_t *smem,
             uint32_t smem_bytes, char *text);
int batch_shift(struct tmem *t, uint32_t address, char *text);
int batch_tcgen05_mma(const struct batch_mma *m, struct tmem *const *tmem, uint8_t *const *smem,
                      uint32_t smem_bytes, char *text);
#pragma GCC visibility pop

#endif
