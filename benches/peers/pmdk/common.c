#include "common.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct opts opt = { .threads = 1, .reps = 5, .budget = 30, .prefault = 1 };

static char path[4096];
static pid_t path_owner;

void die(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "pmdk-bench: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static char checksum[48];

void checksum_int(uint64_t sum)
{
	snprintf(checksum, sizeof(checksum), ",\"checksum\":%lu", sum);
}

void checksum_float(double sum)
{
	snprintf(checksum, sizeof(checksum), ",\"checksum\":%.17g", sum);
}

static void serve(double (*rep)(void *), void *ctx)
{
	char line[64];
	while (fgets(line, sizeof(line), stdin)) {
		double seconds = 0;
		for (uint64_t n = strtoull(line, NULL, 10); n > 0; n--)
			seconds += rep(ctx);
		printf("{\"seconds\":%.9f%s}\n", seconds, checksum);
		fflush(stdout);
	}
	exit(0); /* drop_at_exit() deletes the pool */
}

void measure(double (*rep)(void *), void *ctx, struct samples *out)
{
	if (opt.serve)
		serve(rep, ctx);
	double start = now();
	double first = rep(ctx);
	out->n = 0;
	if (first > opt.budget / 4)
		out->s[out->n++] = first;
	while (out->n < opt.reps && (out->n == 0 || now() - start < opt.budget))
		out->s[out->n++] = rep(ctx);
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

double median(const struct samples *in)
{
	struct samples s = *in;
	qsort(s.s, s.n, sizeof(double), cmp_double);
	return s.n % 2 ? s.s[s.n / 2] : (s.s[s.n / 2 - 1] + s.s[s.n / 2]) / 2;
}

void emit(const char *bench, const struct samples *s, double ops,
	const char *note_fmt, ...)
{
	double lo = s->s[0], hi = s->s[0], med = median(s);
	for (int i = 1; i < s->n; i++) {
		lo = s->s[i] < lo ? s->s[i] : lo;
		hi = s->s[i] > hi ? s->s[i] : hi;
	}
	printf("{\"system\":\"%s\",\"bench\":\"%s\",\"variant\":\"%s\",\"n\":%lu,"
		"\"threads\":%d,\"seconds\":%.9f,\"min\":%.9f,\"max\":%.9f,"
		"\"reps\":%d,\"ns_per_op\":%.2f,\"note\":\"",
		opt.is_volatile ? "volatile-c" : "pmdk", bench, opt.variant,
		opt.n, opt.threads, med, lo, hi, s->n, med * 1e9 / ops);
	va_list ap;
	va_start(ap, note_fmt);
	vprintf(note_fmt, ap);
	va_end(ap);
	printf("\"}\n");
	fflush(stdout);
}

static void drop_at_exit(void)
{
	if (getpid() == path_owner)
		unlink(path);
}

static void drop_on_signal(int sig)
{
	unlink(path);
	_exit(128 + sig);
}

const char *pool_path(void)
{
	if (!path[0]) {
		const char *dir = getenv("PHEAP_BENCH_DIR");
		snprintf(path, sizeof(path), "%s/pmdk-bench-%d.pool",
			dir && *dir ? dir : "/dev/shm", (int)getpid());
		path_owner = getpid();
		atexit(drop_at_exit);
		signal(SIGINT, drop_on_signal);
		signal(SIGTERM, drop_on_signal);
	}
	return path;
}

void pool_set_path(const char *p)
{
	snprintf(path, sizeof(path), "%s", p);
}

PMEMobjpool *pool_make(size_t size)
{
	int prefault = opt.prefault;
	if (pmemobj_ctl_set(NULL, "prefault.at_create", &prefault))
		die("prefault: %s", pmemobj_errormsg());
	if (size < 16 * MiB)
		size = 16 * MiB;
	size = (size + 2 * MiB - 1) & ~(2 * MiB - 1);
	unlink(pool_path());
	PMEMobjpool *pop = pmemobj_create(pool_path(), LAYOUT, size, 0600);
	if (!pop)
		die("create %s: %s", pool_path(), pmemobj_errormsg());
	return pop;
}

void pool_drop(PMEMobjpool *pop)
{
	pmemobj_close(pop);
	unlink(pool_path());
}

uint64_t pool_class(PMEMobjpool *pop, size_t unit)
{
	struct pobj_alloc_class_desc d = {
		.unit_size = unit,
		.alignment = 0,
		.units_per_block = 256 * 1024 / unit, /* up to 65535 */
		.header_type = POBJ_HEADER_NONE,
	};
	if (pmemobj_ctl_set(pop, "heap.alloc_class.new.desc", &d))
		die("alloc class: %s", pmemobj_errormsg());
	return POBJ_CLASS_ID(d.class_id);
}

void *pool_array(PMEMobjpool *pop, size_t size)
{
	PMEMoid oid;
	/* An object starts 16 bytes after a 64-byte boundary, hence the slack. */
	if (pmemobj_zalloc(pop, &oid, size + 64, 0))
		die("alloc of %zu: %s", size, pmemobj_errormsg());
	return (void *)(((uintptr_t)pmemobj_direct(oid) + 63) & ~(uintptr_t)63);
}

int child_run(const char *name, double *values, int max)
{
	int fd[2];
	if (pipe(fd))
		die("pipe: %s", strerror(errno));
	char n[32], prefault[2] = { '0' + opt.prefault, 0 };
	snprintf(n, sizeof(n), "%lu", opt.n);
	fflush(stdout);
	pid_t pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid == 0) {
		dup2(fd[1], 1);
		close(fd[0]);
		close(fd[1]);
		setenv("PMDK_BENCH_CHILD_POOL", pool_path(), 1);
		execl("/proc/self/exe", "pmdk-bench", "--child", name,
			"--prefault", prefault, opt.bench, opt.variant, n,
			(char *)NULL);
		_exit(127);
	}
	close(fd[1]);
	FILE *f = fdopen(fd[0], "r");
	int got = 0;
	while (got < max && fscanf(f, "%lf", &values[got]) == 1)
		got++;
	fclose(f);
	int status;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0) &&
	    !(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
		die("child %s failed (status %#x)", name, status);
	return got;
}
