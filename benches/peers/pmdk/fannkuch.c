/*
 * fannkuch: Benchmarks Game fannkuch-redux; the three permutation arrays are
 * byte arrays in persistent memory and everything is one transaction.
 *   field  snapshot right before each write: one byte at each element store,
 *          n bytes at the copy of a permutation
 *   tuned  one snapshot of all three arrays up front
 */
#include "common.h"

#define MAXN 16

struct state {
	uint8_t perm[MAXN], perm1[MAXN], count[MAXN];
};

struct result {
	int checksum, maxflips;
};

static inline __attribute__((always_inline)) struct result
run(struct state *s, int n, enum log_mode mode)
{
#define LOG(p, len) do { if (mode == LOG_FIELD) tx_log((p), (len)); } while (0)
	struct result res = { 0, 0 };
	int r = n;
	uint64_t nperm = 0;
	if (mode == LOG_WHOLE)
		tx_log(s, sizeof(*s));
	for (int i = 0; i < n; i++) {
		LOG(&s->perm1[i], 1);
		s->perm1[i] = i;
	}
	for (;;) {
		for (; r != 1; r--) {
			LOG(&s->count[r - 1], 1);
			s->count[r - 1] = r;
		}
		LOG(s->perm, n);
		memcpy(s->perm, s->perm1, n);
		int flips = 0, k;
		while ((k = s->perm[0]) != 0) {
			for (int i = 0, j = k; i < j; i++, j--) {
				uint8_t t = s->perm[i];
				LOG(&s->perm[i], 1);
				s->perm[i] = s->perm[j];
				LOG(&s->perm[j], 1);
				s->perm[j] = t;
			}
			flips++;
		}
		if (flips > res.maxflips)
			res.maxflips = flips;
		res.checksum += nperm % 2 == 0 ? flips : -flips;
		for (;;) {
			if (r == n)
				return res;
			uint8_t first = s->perm1[0];
			for (int i = 0; i < r; i++) {
				LOG(&s->perm1[i], 1);
				s->perm1[i] = s->perm1[i + 1];
			}
			LOG(&s->perm1[r], 1);
			s->perm1[r] = first;
			LOG(&s->count[r], 1);
			if (--s->count[r] > 0)
				break;
			r++;
		}
		nperm++;
	}
#undef LOG
}

struct fannkuch {
	PMEMobjpool *pop;
	struct state *s;
	enum log_mode mode;
	struct result res;
};

static double rep(void *ctx)
{
	struct fannkuch *f = ctx;
	int n = opt.n;
	double t = now();
	if (f->pop)
		tx_begin(f->pop);
	switch (f->mode) {
	case LOG_FIELD: f->res = run(f->s, n, LOG_FIELD); break;
	case LOG_WHOLE: f->res = run(f->s, n, LOG_WHOLE); break;
	default: f->res = run(f->s, n, LOG_NONE); break;
	}
	if (f->pop)
		tx_commit();
	t = now() - t;
	checksum_int(f->res.checksum);
	return t;
}

void bench_fannkuch(void)
{
	static const struct result known[] = {
		[7] = { 228, 16 }, [8] = { 1616, 22 }, [9] = { 8629, 30 },
		[10] = { 73196, 38 }, [11] = { 556355, 51 },
	};
	struct fannkuch f = { 0 };
	struct samples out;
	if (opt.n < 7 || opt.n > 11)
		die("fannkuch: n is 7 to 11");
	f.mode = opt.is_volatile ? LOG_NONE :
		is_variant("field") ? LOG_FIELD : LOG_WHOLE;
	if (f.mode == LOG_WHOLE && !is_variant("tuned"))
		die("fannkuch: unknown variant");
	struct state *mem = aligned_alloc(64, 64);
	if (f.mode == LOG_NONE) {
		f.s = mem;
	} else {
		f.pop = pool_make(0);
		f.s = pool_array(f.pop, sizeof(*f.s));
	}
	measure(rep, &f, &out);
	if (f.pop)
		pool_drop(f.pop);
	free(mem);
	if (f.res.checksum != known[opt.n].checksum ||
	    f.res.maxflips != known[opt.n].maxflips)
		die("fannkuch: wrong result %d %d", f.res.checksum, f.res.maxflips);
	emit("fannkuch", &out, 1, "checksum %d, max flips %d", f.res.checksum,
		f.res.maxflips);
}
