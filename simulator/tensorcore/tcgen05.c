/* tcgen05.mma on tensor memory: which lanes and columns hold which rows of D, A, scales and metadata. */
#include "tcgen05.h"

#include "mma/sparse.h"

/* How D's rows and columns are spread over a CTA's lanes (PTX ISA, Data Path Layout Organization, layouts A to
 * G). N is split over `splits` groups of `rows` lanes. */
struct layout {
    int rows;    /* rows of D in one CTA */
    int splits;  /* column groups: 1 (A, D, F), 2 (B, E) or 4 (G) */
    bool halved; /* layout F: uses 16 lanes of each quarter */
};

static struct layout layout_of(const struct tc_instruction *in) {
    struct layout l = {in->m / in->cta_group, 1, false};
    if (in->cta_group == 2 || in->ws) {
        l.splits = TMEM_LANES / l.rows;
    } else {
        l.halved = l.rows == 64;
    }
    return l;
}

static int lane_of(const struct layout *l, uint32_t d_tmem, int row, int split) {
    if (l->halved) {
        return tmem_lane(d_tmem) + row / 16 * TMEM_QUARTER_LANES + row % 16;
    }
    return row + split * l->rows;
}

static bool check_lanes(const struct layout *l, uint32_t address, const char *what, struct tc_why *why) {
    int lane = tmem_lane(address);
    if (l->halved ? lane != 0 && lane != 16 : lane != 0) {
        return tc_refuse(why, "tcgen05.mma: the lane of %s is %d; with this M it must be %s", what, lane,
                         l->halved ? "0 or 16" : "0");
    }
    return true;
}

static bool region(const struct tmem *t, const struct layout *l, uint32_t address, int columns,
                   const char *what, struct tmem_region *out, struct tc_why *why) {
    int column = tmem_column(address);
    if (column + columns > TMEM_COLUMNS) {
        return tc_refuse(why, "tcgen05.mma: %s reaches column %d of tensor memory, which has 512", what,
                         column + columns - 1);
    }
    *out = (struct tmem_region){15, (uint8_t)(l->halved ? tmem_lane(address) : 0),
                                (uint8_t)(l->halved ? 16 : 32), (uint16_t)column, (uint16_t)columns};
    return tmem_check_region(t, out, what, why);
}

/* Columns of scales for `rows` rows: a column has one word for each of 32 rows. */
static int scale_columns(int rows) {
    return (rows + TMEM_QUARTER_LANES - 1) / TMEM_QUARTER_LANES;
}

/* ---- metadata of a sparse A (PTX ISA, Sparsity selector: in figures) ----
 * Four bits per chunk.  With elements of 8 bits or less, each row has a lane and two columns.  With 16- and
 * 32-bit elements, 16 rows share 16 lanes of one of two columns: lane 8 h + r has chunks 4 h to 4 h + 3 of row
 * r in its lower half and those of row r + 8 in its upper half
 * (cutlass/gemm/collective/builders/sm1xx_sparse_config.inl). */
static bool is_wide(const struct tc_mma_rule *rule) {
    return tc_formats[rule->a].bits >= 16;
}

static struct tmem_region metadata_region(const struct tc_mma *mma) {
    bool wide = is_wide(&mma->in.rule);
    int column = tmem_column(mma->e_tmem) + (wide ? mma->in.selector : 0);
    return (struct tmem_region){15, 0, 32, (uint16_t)column, wide ? 1 : 2};
}

/* Returns -1, or a lane with illegal metadata; *idle: a lane whose illegal metadata belongs to zeros. */
static int read_metadata(const struct tmem *t, const struct tc_mma *mma, const struct tc_mma_operands *in,
                         int rows, uint8_t (*out)[TC_SPARSE_MAX_CHUNKS], int *idle) {
    bool wide = is_wide(&mma->in.rule);
    int column = metadata_region(mma).column, chunks = wide ? 8 : 16;
    for (int row = 0; row < rows; row++) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            int lane = wide ? row / 16 * 16 + chunk / 4 * 8 + row % 8 : row;
            int nibble = wide ? row % 16 / 8 * 4 + chunk % 4 : chunk % 8;
            out[row][chunk] = t->word[lane][column + (wide ? 0 : chunk / 8)] >> 4 * nibble & 15;
            if (tc_sparse_legal(out[row][chunk], mma->in.rule.a, true)) {
                continue;
            }
            if (!tc_sparse_idle(out[row][chunk], mma->in.rule.a, in->a + (size_t)row * in->a_stride, chunk)) {
                return lane;
            }
            *idle = lane;
        }
    }
    return -1;
}

bool tc_mma_check(const struct tc_mma *mma, const struct tc_cta *cta, struct tc_mma_footprint *footprint,
                  struct tc_why *why) {
    const struct tc_instruction *in = &mma->in;
    struct layout l = layout_of(in), all = {TMEM_LANES, 1, false};
    memset(footprint, 0, offsetof(struct tc_mma_footprint, a));
    footprint->reads = 0;
    if (!check_lanes(&l, mma->d_tmem, "D", why) ||
        !region(cta->tmem, &l, mma->d_tmem, in->n / l.splits, "D of tcgen05.mma", &footprint->d, why)) {
        return false;
    }
    if (mma->a_in_tmem) {
        struct tc_operand_shape shape = tc_a_shape(in);
        if (in->a_mn_major) {
            return tc_refuse(why, "tcgen05.mma: A in tensor memory cannot be transposed (bit 15)");
        }
        if (in->ws && l.splits > 1) {
            return tc_unmodelled(why, "tcgen05.mma.ws with A in tensor memory and M below 128 is not modelled");
        }
        if (shape.padded) {
            return tc_unmodelled(why,
                                 "A in tensor memory with elements of 4 or 6 bits in bytes is not modelled");
        }
        if (l.halved && tmem_lane(mma->a_tmem) != tmem_lane(mma->d_tmem)) {
            return tc_refuse(why, "tcgen05.mma: A and D of M = 64 must start at the same lane, not %d and %d",
                             tmem_lane(mma->a_tmem), tmem_lane(mma->d_tmem));
        }
        if (!check_lanes(&l, mma->a_tmem, "A", why) ||
            !region(cta->tmem, &l, mma->a_tmem, TC_ROW_BYTES / 4, "A of tcgen05.mma",
                    &footprint->read[footprint->reads++], why)) {
            return false;
        }
    } else {
        struct tc_operand_shape shape = tc_a_shape(in);
        if (!tc_check_operand(in, false, &mma->a, why)) {
            return false;
        }
        footprint->a_chunks = tc_operand_chunks(&mma->a, &shape, cta->smem_bytes, footprint->a, why);
        if (footprint->a_chunks < 0) {
            return false;
        }
    }
    struct tc_operand_shape shape = tc_b_shape(in);
    if (!tc_check_operand(in, true, &mma->b, why)) {
        return false;
    }
    footprint->b_chunks = tc_operand_chunks(&mma->b, &shape, cta->smem_bytes, footprint->b, why);
    if (footprint->b_chunks < 0) {
        return false;
    }
    if (in->sparse) {
        if (tmem_column(mma->e_tmem) % 2 != 0) {
            return tc_refuse(why, "tcgen05.mma.sp: the metadata's column is %d; it has to be even",
                             tmem_column(mma->e_tmem));
        }
        struct tmem_region wanted = metadata_region(mma);
        if (!check_lanes(&all, mma->e_tmem, "the metadata", why) ||
            !region(cta->tmem, &all, mma->e_tmem, wanted.column - tmem_column(mma->e_tmem) + wanted.columns,
                    "the metadata of tcgen05.mma.sp", &footprint->read[footprint->reads], why)) {
            return false;
        }
        footprint->read[footprint->reads++] = wanted;
    }
    if (!in->scales) {
        return true;
    }
    return check_lanes(&all, mma->sfa_tmem, "scale_A", why) &&
           check_lanes(&all, mma->sfb_tmem, "scale_B", why) &&
           region(cta->tmem, &all, mma->sfa_tmem, scale_columns(l.rows), "scale_A of tcgen05.mma",
                  &footprint->read[footprint->reads++], why) &&
           region(cta->tmem, &all, mma->sfb_tmem, scale_columns(in->n / l.splits), "scale_B of tcgen05.mma",
                  &footprint->read[footprint->reads++], why);
}

static size_t b_stride(const struct tc_instruction *in) {
    return in->sparse ? 2 * TC_ROW_BYTES : TC_ROW_BYTES;
}

void tc_mma_read(const struct tc_mma *mma, const struct tc_mma_footprint *footprint, const struct tc_cta *cta,
                 int rank, struct tc_mma_data *data) {
    struct tc_operand_shape a = tc_a_shape(&mma->in), b = tc_b_shape(&mma->in);
    if (!mma->a_in_tmem) {
        tc_operand_gather(cta->smem, &a, footprint->a, data->a[rank * a.rows], TC_ROW_BYTES);
    }
    size_t stride = b_stride(&mma->in);
    tc_operand_gather(cta->smem, &b, footprint->b, data->b + (size_t)(rank * b.rows) * stride, stride);
}

/* Reads the scales of `rows` rows, from row `first` on, from one quarter's lanes. The ID is the byte of the
 * word where a row's scales start (PTX ISA, Scale Factor A ID). */
static void read_scales(const struct tmem *t, uint32_t address, int quarter, int first, int rows, int id,
                        int scales, uint8_t (*out)[4]) {
    for (int i = 0; i < rows; i++) {
        int row = first + i;
        uint32_t word = t->word[quarter * TMEM_QUARTER_LANES + row % 32][tmem_column(address) + row / 32];
        for (int s = 0; s < scales; s++) {
            out[i][s] = (uint8_t)(word >> (8 * (id + s)));
        }
    }
}

/* True if the quarters' copies of the scales are equal, so that all rows can be computed as one tile. Otherwise
 * each quarter uses its own copy, and a missing duplicate shows in the result. */
static bool copies_agree(const struct tmem *t, uint32_t address, int columns, int first_quarter, int quarters) {
    for (int q = first_quarter + 1; q < first_quarter + quarters; q++) {
        for (int lane = 0; lane < TMEM_QUARTER_LANES; lane++) {
            if (memcmp(&t->word[q * TMEM_QUARTER_LANES + lane][tmem_column(address)],
                       &t->word[first_quarter * TMEM_QUARTER_LANES + lane][tmem_column(address)],
                       (size_t)columns * sizeof(uint32_t))) {
                return false;
            }
        }
    }
    return true;
}

/* Computes `rows` rows of D, from first_row on, for one column group, with B's scales from `quarter`. */
static void run_tile(const struct tc_mma *mma, const struct tc_mma_operands *in, const struct layout *l,
                     struct tmem *t, const uint8_t *chunks, int first_row, int rows, int split,
                     const uint32_t *disabled, int quarter) {
    struct tc_mma_operands tile = *in;
    int width = mma->in.n / l->splits;
    uint8_t sfa[TMEM_LANES][4], sfb[TC_MMA_MAX_N][4];
    uint32_t *d[TMEM_LANES];
    tile.b += (size_t)(split * width) * tile.b_stride;
    tile.a += (size_t)first_row * tile.a_stride;
    for (int i = 0; i < rows; i++) {
        int lane = lane_of(l, mma->d_tmem, first_row + i, split);
        bool off = disabled[lane / 32] >> (lane % 32) & 1;
        d[i] = off ? NULL : &t->word[lane][tmem_column(mma->d_tmem)];
    }
    if (mma->in.scales) {
        /* Scales of A come from the quarter that holds the rows. */
        for (int i = 0; i < rows; i += TMEM_QUARTER_LANES) {
            int lane = lane_of(l, mma->d_tmem, first_row + i, split);
            read_scales(t, mma->sfa_tmem, lane / TMEM_QUARTER_LANES, first_row + i, TMEM_QUARTER_LANES,
                        mma->in.sfa_id, mma->in.scales, sfa + i);
        }
        read_scales(t, mma->sfb_tmem, quarter, 0, width, mma->in.sfb_id, mma->in.scales, sfb);
        tile.sfa = sfa[0];
        tile.sfb = sfb[0];
        tile.sfa_stride = tile.sfb_stride = 4;
    }
    if (mma->in.sparse) {
        struct tc_sparse sparse = {chunks + first_row * TC_SPARSE_MAX_CHUNKS, TC_SPARSE_MAX_CHUNKS,
                                   tc_sparse_unit(mma->in.rule.a)};
        tc_mma_sparse_tile(&mma->in.rule, &tile, &sparse, d, rows, width, mma->accumulate);
    } else {
        tc_mma_tile(&mma->in.rule, &tile, d, rows, width, mma->accumulate);
    }
}

int tc_mma_write(const struct tc_mma *mma, const struct tc_mma_data *data, const struct tc_cta *cta, int rank,
                 int *idle) {
    struct layout l = layout_of(&mma->in);
    struct tmem *t = cta->tmem;
    struct tc_mma_operands in = {
        .a = data->a[rank * l.rows], .b = data->b, .a_stride = TC_ROW_BYTES, .b_stride = b_stride(&mma->in)};
    uint8_t chunks[TMEM_LANES][TC_SPARSE_MAX_CHUNKS];
    uint8_t a[TMEM_LANES][TC_ROW_BYTES];
    if (mma->a_in_tmem) { /* copy A first: D may overwrite it */
        for (int row = 0; row < l.rows; row++) {
            memcpy(a[row], &t->word[lane_of(&l, mma->a_tmem, row, 0)][tmem_column(mma->a_tmem)], TC_ROW_BYTES);
        }
        in.a = a[0];
    }
    *idle = -1;
    int illegal = mma->in.sparse ? read_metadata(t, mma, &in, l.rows, chunks, idle) : -1;
    if (illegal >= 0) {
        return illegal;
    }
    const uint32_t *disabled = mma->disabled_lanes + 4 * rank;
    for (int split = 0; split < l.splits; split++) {
        int quarters = TMEM_LANES / TMEM_QUARTER_LANES / l.splits, first = split * quarters;
        bool whole = !mma->in.scales ||
                     copies_agree(t, mma->sfb_tmem, scale_columns(mma->in.n / l.splits), first, quarters);
        if (whole) {
            run_tile(mma, &in, &l, t, chunks[0], 0, l.rows, split, disabled, first);
            continue;
        }
        for (int q = 0; q < quarters; q++) {
            run_tile(mma, &in, &l, t, chunks[0], q * TMEM_QUARTER_LANES, TMEM_QUARTER_LANES, split, disabled,
                     first + q);
        }
    }
    return -1;
}

void tc_mma_execute(const struct tc_mma *mma, const struct tc_mma_footprint *footprint,
                    const struct tc_cta *ctas) {
    struct tc_mma_data data;
    for (int rank = 0; rank < mma->in.cta_group; rank++) {
        tc_mma_read(mma, footprint, &ctas[rank], rank, &data);
    }
    for (int rank = 0; rank < mma->in.cta_group; rank++) {
        int idle;
        (void)tc_mma_write(mma, &data, &ctas[rank], rank, &idle);
    }
}

void tc_cp_read(const uint8_t *smem, const uint32_t *chunks, int count, uint8_t *data) {
    for (int i = 0; i < count; i++) {
        memcpy(data + (size_t)i * TC_CHUNK_BYTES, smem + chunks[i], TC_CHUNK_BYTES);
    }
}
