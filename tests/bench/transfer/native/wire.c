/* wire NETWORK NETWORK INTERFACE DELAY_MS MBIT: carry IP packets between two network namespaces, late and at a rate.
 *
 * NETWORK is a file as /proc/PID/ns/net; INTERFACE is a TUN interface that is in both. DELAY_MS is for one way, MBIT
 * the rate of each way. A packet that finds 16 MiB waiting is dropped. It runs until it is ended. It stands in for tc's
 * netem, which many kernels lack, and asks for real-time scheduling, as a link does not wait for processes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 4096, PACKET = 9216, MOST_WAITING = 16 * 1024 * 1024 };

typedef struct { int64_t due; int size; char data[PACKET]; } Slot;
typedef struct { int in, out; } Way;

static int64_t delay_ns;
static double ns_per_byte;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int attach(const char *network, const char *interface) {
    int ns = open(network, O_RDONLY | O_CLOEXEC);
    if (ns < 0 || setns(ns, CLONE_NEWNET)) die(network);
    close(ns);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct ifreq wanted = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(wanted.ifr_name, IFNAMSIZ, "%s", interface);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &wanted)) die(interface);
    return fd;
}

static void *carry(void *argument) {
    Way way = *(Way *)argument;
    Slot *slots = malloc(sizeof *slots * SLOTS);
    unsigned first = 0, last = 0;
    int64_t free_at = 0; /* when the line has sent all that it was given */
    long waiting = 0;
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        int64_t now = now_ns();
        for (; first != last && slots[first % SLOTS].due <= now; first++) {
            waiting -= slots[first % SLOTS].size;
            if (write(way.out, slots[first % SLOTS].data, (size_t)slots[first % SLOTS].size) < 0) continue; /* dropped */
        }
        struct pollfd ready = {.fd = way.in, .events = last - first < SLOTS ? POLLIN : 0};
        int64_t left = first == last ? 1000000000 : slots[first % SLOTS].due - now_ns();
        struct timespec rest = {.tv_sec = 0, .tv_nsec = left < 0 ? 0 : left > 999999999 ? 999999999 : left};
        if (ppoll(&ready, 1, &rest, NULL) <= 0) continue;
        for (int i = 0; i < 64; i++) {
            Slot *slot = &slots[last % SLOTS];
            ssize_t n = last - first < SLOTS ? read(way.in, slot->data, PACKET) : -1;
            if (n <= 0) break;
            if (waiting + n > MOST_WAITING) continue;
            now = now_ns();
            free_at = (free_at > now ? free_at : now) + (int64_t)((double)n * ns_per_byte);
            slot->due = free_at + delay_ns;
            slot->size = (int)n;
            waiting += n;
            last++;
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: wire NETWORK NETWORK INTERFACE DELAY_MS MBIT\n");
        return 2;
    }
    delay_ns = (int64_t)(atof(argv[4]) * 1e6);
    ns_per_byte = 8e3 / atof(argv[5]);
    int a = attach(argv[1], argv[3]), b = attach(argv[2], argv[3]);
    Way there = {a, b}, back = {b, a};
    struct sched_param soon = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &soon)) perror("real-time scheduling"); /* goes on without */
    pthread_t thread;
    if (pthread_create(&thread, NULL, carry, &there)) die("a thread");
    carry(&back);
    return 0;
}
