/* Execution of bulk loads and stores (PTX ISA: cp.async.bulk, cp.async.bulk.tensor, cp.reduce.async.bulk). */
#include "bulk.h"

#include "groups.h"
#include "tensorcore/half.h"
#include "tensorcore/mma/formats.h"

/* ---- loads into shared memory ---- */

static struct mbarrier *signalled(struct run *run, uint64_t address, const struct cta *target, int lane,
                                  bool multicast, int cta_group) {
    uint32_t rank = (uint32_t)(address >> RANK_SHIFT) & 0xff;
    if (multicast) { /* in a pair: the CTA with the same parity as `rank` */
        rank = cta_group == 2 ? (target->rank & ~1u) | (rank & 1) : target->rank;
    } else if (rank != target->rank && !(cta_group == 2 && rank / 2 == target->rank / 2)) {
        (void)sim_report(run, SIM_ERROR, "barrier-rank", lane,
                         "the copy goes to CTA rank %u and its mbarrier is in rank %u", target->rank, rank);
        return NULL;
    }
    address = (address & RANK_MASK) | (uint64_t)rank << RANK_SHIFT;
    return mbarrier_at(run, address, lane, false, true);
}

bool make_destinations(struct run *run, struct load *load, uint64_t to, uint64_t barrier, uint32_t bytes,
                       uint32_t align, int lane, int64_t mask, int cta_group) {
    uint32_t offset, targets = (uint32_t)mask;
    struct cta *cta = shared_cta(run, to, bytes, align, lane, false, &offset);
    if (cta == NULL) {
        return false;
    }
    bool multicast = mask >= 0;
    targets = multicast ? targets : 1u << cta->rank;
    if (targets == 0 || targets >> run->cluster->nctas != 0) {
        (void)sim_report(run, SIM_ERROR, "multicast-mask", lane, "multicast mask %#x in a cluster of %u CTAs",
                         targets, run->cluster->nctas);
        return false;
    }
    FOR_LANES(rest, targets) {
        struct destination *destination = &load->destination[load->destinations++];
        uint64_t place = (to & RANK_MASK) | (uint64_t)LANE(rest) << RANK_SHIFT;
        destination->cta = shared_cta(run, place, bytes, align, lane, false, &destination->offset);
        if (destination->cta == NULL) {
            return false;
        }
        destination->barrier = signalled(run, barrier, destination->cta, lane, multicast, cta_group);
        if (destination->barrier == NULL) {
            return false;
        }
        destination->phase = destination->barrier->phase;
    }
    return true;
}

void record_destinations(struct run *run, const struct load *load, uint32_t span, uint32_t counted) {
    run->worker->counters.tma_load_bytes += counted;
    for (uint32_t i = 0; run->cluster->checks && i < load->destinations; i++) {
        const struct destination *destination = &load->destination[i];
        struct epoch epoch = mbarrier_epoch(run, destination->barrier);
        phase_needs(run, destination->barrier);
        remote_note(run, destination->barrier->cta, &epoch);
        (void)hazard_range(run, destination->cta, destination->offset, span, ACCESS_WRITE | ACCESS_ASYNC,
                           &epoch);
    }
}

/* Fills a row with the out-of-bounds value: zeros, or this 16-bit NaN pattern whatever the type (measured on an
 * H200 for f16, on an RTX 5080 for f16, bf16, f32, f64 and tf32: roundandr/Allegro,
 * nvidia_tma_formats_sm120a.json). */
static void fill_outside(const struct sim_tensor_map *map, uint8_t *row, uint32_t bytes) {
    static const uint8_t nan[2] = {0xf7, 0x7f};
    memset(row, 0, bytes);
    for (uint32_t i = 0; map->oob_fill && i < bytes; i++) {
        row[i] = nan[i % 2];
    }
}

/* Loads round tf32 elements to nearest even; neither tf32 type flushes subnormals (measured on an H200). */
static void round_elements(const struct sim_tensor_map *map, uint8_t *row, uint32_t bytes) {
    if (map->data_type != TYPE_TF32 && map->data_type != TYPE_TF32_FTZ) {
        return;
    }
    for (uint32_t i = 0; i < bytes; i += 4) {
        float x;
        memcpy(&x, row + i, 4);
        uint32_t rounded = tc_from_f32(TC_TF32, x, TC_RN, 0, 0);
        memcpy(row + i, &rounded, 4);
    }
}

void take_global(const struct async_op *op, const struct known *view, uint8_t *to, uint64_t from,
                 uint32_t bytes) {
    if (view != NULL) {
        (void)delayed_read(op->cluster->launch, view, from, bytes, to);
    } else {
        memcpy(to, (const void *)(uintptr_t)from, bytes);
    }
}

static void load_read(struct async_op *op) {
    const struct load *load = op->payload;
    uint8_t packed[MAX_ROW_BYTES];
    if (!load->tensor && load->from_cta != NULL) {
        memcpy(op->data, load->from_cta->shared + load->from, load->bytes);
        return;
    }
    if (!load->tensor) {
        take_global(op, load->view, op->data, load->from, load->bytes);
        return;
    }
    const struct tensor_box *box = &load->box;
    for (uint32_t i = 0; i < box->rows; i++) {
        const struct box_row row = tensor_box_row(box, i);
        fill_outside(&box->map, packed, box->row_bytes);
        if (row.bytes > 0) {
            take_global(op, load->view, packed + row.first, row.address, row.bytes);
            round_elements(&box->map, packed + row.first, row.bytes);
        }
        tensor_row_to_shared(box, packed, op->data + i * box->shared_row_bytes);
    }
}

static void each_chunk(const struct tensor_box *box, uint8_t *shared, uint32_t offset, uint8_t *data,
                       bool store) {
    const uint32_t chunk = tensor_swizzle_atom(box);
    for (uint32_t i = 0; i < box->rows; i++) {
        uint8_t *row = data + i * box->shared_row_bytes;
        for (uint32_t at = 0; at < box->shared_row_bytes; at += chunk) {
            uint8_t *place = shared + tensor_swizzle(box, offset + i * box->pitch + at);
            memcpy(store ? place : row + at, store ? row + at : place, chunk);
        }
    }
}

static void load_write(struct async_op *op) {
    const struct load *load = op->payload;
    for (uint32_t i = 0; i < load->destinations; i++) {
        const struct destination *destination = &load->destination[i];
        if (load->tensor) {
            each_chunk(&load->box, destination->cta->shared, destination->offset, op->data, true);
        } else {
            memcpy(destination->cta->shared + destination->offset, op->data, load->bytes);
        }
    }
}

static void load_complete(struct async_op *op) {
    const struct load *load = op->payload;
    for (uint32_t i = 0; i < load->destinations; i++) {
        mbarrier_complete_tx(op, load->destination[i].barrier, load->destination[i].phase, load->bytes);
    }
}

static void load_poison(struct async_op *op) {
    const struct load *load = op->payload;
    uint32_t span = load->tensor ? load->box.rows * load->box.pitch : load->bytes;
    for (uint32_t i = 0; i < load->destinations; i++) {
        memset(load->destination[i].cta->shared + load->destination[i].offset, POISON_BYTE, span);
    }
}

const struct async_kind load_kind = {"bulk load", load_read, load_write, load_complete,
                                     load_poison, NULL,      load_timed};

/* ---- stores from shared memory ---- */

static void reduce_float(uint8_t *to, const uint8_t *from, enum reduction reduction, unsigned type) {
    if (type == T_F32) {
        float a, b;
        memcpy(&a, to, 4);
        memcpy(&b, from, 4);
        a += b;
        memcpy(to, &a, 4);
    } else if (type == T_F64) {
        double a, b;
        memcpy(&a, to, 8);
        memcpy(&b, from, 8);
        a += b;
        memcpy(to, &a, 8);
    } else {
        uint16_t a, b;
        memcpy(&a, to, 2);
        memcpy(&b, from, 2);
        bool bf16 = type == T_BF16;
        float x = bf16 ? bf16_to_f32(a) : f16_to_f32(a), y = bf16 ? bf16_to_f32(b) : f16_to_f32(b);
        float r = reduction == REDUCE_ADD ? x + y : (reduction == REDUCE_MIN) == (x < y) ? x : y;
        a = bf16 ? f32_to_bf16(r) : f32_to_f16(r);
        memcpy(to, &a, 2);
    }
}

uint64_t reduced(enum reduction reduction, unsigned type, uint64_t a, uint64_t b) {
    const bool less = type == T_S32 ? (int32_t)a < (int32_t)b : type == T_S64 ? (int64_t)a < (int64_t)b : a < b;
    switch (reduction) {
    case REDUCE_ADD:
        return a + b;
    case REDUCE_MIN:
        return less ? a : b;
    case REDUCE_MAX:
        return less ? b : a;
    case REDUCE_INC:
        return a >= b ? 0 : a + 1;
    case REDUCE_DEC:
        return a == 0 || a > b ? b : a - 1;
    case REDUCE_AND:
        return a & b;
    case REDUCE_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

void reduce(uint8_t *to, const uint8_t *from, uint32_t bytes, enum reduction reduction, unsigned type) {
    uint32_t size = ptx_type_bytes(type);
    for (uint32_t at = 0; at < bytes; at += size) {
        if (is_float_type(type)) {
            reduce_float(to + at, from + at, reduction, type);
            continue;
        }
        uint64_t a = 0, b = 0;
        memcpy(&a, to + at, size);
        memcpy(&b, from + at, size);
        a = reduced(reduction, type, a, b);
        memcpy(to + at, &a, size);
    }
}

uint32_t store_run(const struct store *store, uint32_t *at) {
    const uint32_t chunk = 16;
    if (store->kept == ALL_BYTES) {
        return store->bytes - *at;
    }
    while (*at < store->bytes && !(store->kept >> *at % chunk & 1)) {
        (*at)++;
    }
    uint32_t end = *at;
    while (end < store->bytes && store->kept >> end % chunk & 1) {
        end++;
    }
    return end - *at;
}

static void store_read(struct async_op *op) {
    const struct store *store = op->payload;
    if (store->tensor) {
        each_chunk(&store->box, op->cta->shared, store->from, op->data, false);
    } else {
        memcpy(op->data, op->cta->shared + store->from, store->bytes);
    }
    group_advance(op, GROUP_BULK, store->group, ASYNC_READ);
}

static void put_global(const struct async_op *op, uint64_t address, const uint8_t *from, uint32_t bytes) {
    const struct store *store = op->payload;
    uint8_t *to = (uint8_t *)(uintptr_t)address;
    if (store->reduction != REDUCE_NONE) {
        reduce(to, from, bytes, store->reduction, store->type);
    } else if (store->view != NULL) {
        delayed_write(op->cluster->launch, store->view, address, bytes, from);
    } else {
        memcpy(to, from, bytes);
    }
}

static void store_write(struct async_op *op) {
    const struct store *store = op->payload;
    uint8_t packed[MAX_ROW_BYTES];
    if (!store->tensor) {
        for (uint32_t at = 0, run; (run = store_run(store, &at)) > 0; at += run) {
            put_global(op, store->to + at, op->data + at, run);
        }
        return;
    }
    for (uint32_t i = 0; i < store->box.rows; i++) {
        const struct box_row row = tensor_box_row(&store->box, i);
        if (row.bytes > 0) {
            tensor_row_from_shared(&store->box, op->data + i * store->box.shared_row_bytes, packed);
            put_global(op, row.address, packed + row.first, row.bytes);
        }
    }
}

static void store_complete(struct async_op *op) {
    const struct store *store = op->payload;
    group_advance(op, GROUP_BULK, store->group, ASYNC_DONE);
}

static const struct async_kind store_kind = {"bulk store", store_read, store_write, store_complete,
                                             NULL,         NULL,       store_timed};

void issue_store(struct run *run, const struct store *store, uint32_t span, int lane) {
    struct async_op *op = async_new(run, &store_kind, lane, sizeof *store, store->bytes + 16);
    struct family *family = &run->warp->groups->family[GROUP_BULK];
    struct store *own = op->payload;
    *own = *store;
    own->group = group_current(run->warp, GROUP_BULK);
    own->view = delayed_view(run);
    family->used = true;
    family->last_used = own->group;
    family->last_insn = run->insn;
    group_add(run, GROUP_BULK);
    run->worker->counters.tma_store_bytes += store->bytes;
    if (run->cluster->checks) {
        struct epoch epoch = group_epoch(run, GROUP_BULK, true);
        if (store->tensor) {
            (void)hazard_range(run, run->cta, store->from, span, ACCESS_ASYNC, &epoch);
        }
        for (uint32_t at = 0, part; !store->tensor && (part = store_run(store, &at)) > 0; at += part) {
            (void)hazard_range(run, run->cta, store->from + at, part, ACCESS_ASYNC, &epoch);
        }
    }
    async_issue(run, op);
}
