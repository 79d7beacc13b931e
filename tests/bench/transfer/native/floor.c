/* floor HOST PORT CONNECTIONS SYNC < LIST: the least that receiving, writing and hashing costs.
 *
 * LIST has a line for each file: request target, TAB, path. A thread a connection takes the next file, receives it into
 * one buffer, hashes SHA-256 and writes; with SYNC 1 each file is brought to the disk before the next one. A line
 * `DIGEST  PATH` is printed for each, as sha256sum does. libcrypto is opened at run time, so that no headers are needed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER = 256 * 1024, HEAD = 16 * 1024, DIGEST = 32 };

static void *(*md_new)(void);
static int (*md_init)(void *, const void *, void *);
static int (*md_update)(void *, const void *, size_t);
static int (*md_final)(void *, unsigned char *, unsigned int *);
static const void *sha256;

typedef struct { char *target, *path; } Item;
static Item *items;
static size_t count;
static atomic_size_t next_item;
static const char *host, *port;
static int synced;

static void die(const char *what, const char *which) {
    fprintf(stderr, "floor: %s: %s: %s\n", what, which, strerror(errno));
    exit(1);
}

static void load_crypto(void) {
    void *lib = dlopen("libcrypto.so.3", RTLD_NOW);
    if (!lib) lib = dlopen("libcrypto.so.1.1", RTLD_NOW);
    if (!lib) die("opening", "libcrypto.so.3");
    md_new = (void *(*)(void))dlsym(lib, "EVP_MD_CTX_new");
    md_init = (int (*)(void *, const void *, void *))dlsym(lib, "EVP_DigestInit_ex");
    md_update = (int (*)(void *, const void *, size_t))dlsym(lib, "EVP_DigestUpdate");
    md_final = (int (*)(void *, unsigned char *, unsigned int *))dlsym(lib, "EVP_DigestFinal_ex");
    sha256 = ((const void *(*)(void))dlsym(lib, "EVP_sha256"))();
}

static int dial(void) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &hints, &found)) die("resolving", host);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen)) die("connecting to", host);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    freeaddrinfo(found);
    return fd;
}

static void send_request(int fd, const char *target) {
    char head[HEAD];
    int size = snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", target, host, port);
    for (int sent = 0; sent < size;) {
        ssize_t n = send(fd, head + sent, (size_t)(size - sent), MSG_NOSIGNAL);
        if (n <= 0) die("asking for", target);
        sent += (int)n;
    }
}

/* Receive up to the end of the headers; returns the length of the body, and in *have what came of it already. */
static long long receive_head(int fd, const char *target, char *buffer, size_t *have, char **body) {
    size_t held = 0;
    char *end;
    do {
        ssize_t n = held < HEAD ? recv(fd, buffer + held, HEAD - held, 0) : -1;
        if (n <= 0) die("receiving the headers of", target);
        held += (size_t)n;
        buffer[held] = 0;
    } while (!(end = strstr(buffer, "\r\n\r\n")));
    char *length = strcasestr(buffer, "\r\nContent-Length:");
    if (strncmp(buffer, "HTTP/1.1 200", 12) || !length || length > end) {
        fprintf(stderr, "floor: %s: %.60s\n", target, buffer);
        exit(1);
    }
    *body = end + 4;
    *have = held - (size_t)(*body - buffer);
    return atoll(length + 17);
}

static void keep(int out, void *md, const char *data, size_t size, const char *path) {
    md_update(md, data, size);
    while (size) {
        ssize_t n = write(out, data, size);
        if (n <= 0) die("writing", path);
        data += n;
        size -= (size_t)n;
    }
}

static void fetch(int fd, Item item, char *buffer, void *md) {
    char *body, line[2 * DIGEST + 1];
    size_t have;
    send_request(fd, item.target);
    long long missing = receive_head(fd, item.target, buffer, &have, &body);
    int out = open(item.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (out < 0) die("opening", item.path);
    md_init(md, sha256, NULL);
    keep(out, md, body, have, item.path);
    for (missing -= (long long)have; missing > 0;) {
        ssize_t n = recv(fd, buffer, missing < BUFFER ? (size_t)missing : BUFFER, 0);
        if (n <= 0) die("receiving", item.target);
        keep(out, md, buffer, (size_t)n, item.path);
        missing -= n;
    }
    if ((synced && fsync(out)) || close(out)) die("finishing", item.path);
    unsigned char digest[64];
    md_final(md, digest, NULL);
    for (int i = 0; i < DIGEST; i++) sprintf(line + 2 * i, "%02x", digest[i]);
    printf("%s  %s\n", line, item.path);
}

static void *work(void *unused) {
    char *buffer = malloc(BUFFER + 1);
    void *md = md_new();
    int fd = -1;
    for (size_t i; (i = atomic_fetch_add(&next_item, 1)) < count;) {
        if (fd < 0) fd = dial();
        fetch(fd, items[i], buffer, md);
    }
    if (fd >= 0) close(fd);
    free(buffer);
    return unused;
}

static void read_list(void) {
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0; count++) {
        line[strcspn(line, "\n")] = 0;
        char *tab = strchr(line, '\t');
        if (!tab) die("reading the list at", line);
        *tab = 0;
        items = realloc(items, (count + 1) * sizeof *items);
        items[count] = (Item){strdup(line), strdup(tab + 1)};
    }
    free(line);
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: floor HOST PORT CONNECTIONS SYNC < LIST\n");
        return 2;
    }
    host = argv[1], port = argv[2], synced = atoi(argv[4]);
    int connections = atoi(argv[3]);
    load_crypto();
    read_list();
    pthread_t *threads = calloc((size_t)connections, sizeof *threads);
    for (int i = 0; i < connections; i++)
        if (pthread_create(&threads[i], NULL, work, NULL)) die("starting", "a thread");
    for (int i = 0; i < connections; i++) pthread_join(threads[i], NULL);
    return 0;
}
