// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Notes the process that makes a socket (process.h): its name, that of its first thread. A thread's own name is not read, and
 * neither are later names of the process: a socket keeps its maker, whichever process it is handed to, and whatever that
 * program executes.
 *
 * weft_socket is attached to a cgroup and sees the sockets of IPv4 and IPv6 that processes in it and below it make. Sockets of
 * the kernel have no maker.
 *
 * weft_older_socket runs once over all open files, for the sockets that were there before: their makers are not known any
 * more, so a process that holds one counts as its maker, the one with the lowest number of several.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "process.h"

/* The kernel's own structures, reduced to the fields used; offsets are relocated when the program is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
	struct task_struct *group_leader;
	char comm[4 * WEFT_NAME_WORDS];
};
struct sock_common {
	unsigned short skc_family;
};
struct sock {
	struct sock_common __sk_common;
};
struct socket {
	struct sock *sk;
};
#pragma clang attribute pop

/* What the kernel gives to an iterator over open files. */
struct bpf_iter__task_file {
	__bpf_md_ptr(void *, meta);
	__bpf_md_ptr(struct task_struct *, task);
	__u32 fd;
	__bpf_md_ptr(struct file *, file);
};

#define FAMILY_INET 2 /* AF_INET, include/linux/socket.h */
#define FAMILY_INET6 10

/* The name of the process of which `task` is a thread. Returns whether it can be read. */
static __always_inline int read_maker(struct task_struct *task, struct weft_maker *maker)
{
	struct task_struct *leader = 0;

	if (bpf_core_read(&leader, sizeof(leader), &task->group_leader))
		return 0;
	return bpf_core_read_str(maker->name, sizeof(maker->name), &leader->comm) > 1;
}

SEC("cgroup/sock_create")
int weft_socket(struct bpf_sock *sk)
{
	struct weft_maker maker = {};

	if (read_maker((void *)bpf_get_current_task(), &maker))
		bpf_sk_storage_get(&makers, sk, &maker, BPF_SK_STORAGE_GET_F_CREATE);
	return 1;
}

SEC("iter/task_file")
int weft_older_socket(struct bpf_iter__task_file *at)
{
	struct task_struct *task = at->task;
	struct weft_maker maker = {};
	struct file *file = at->file;
	struct socket *socket;
	struct sock *sk;
	__u16 family;

	if (!task || !file)
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk)
		return 0;
	family = sk->__sk_common.skc_family;
	if (family != FAMILY_INET && family != FAMILY_INET6)
		return 0;
	if (read_maker(task, &maker))
		bpf_sk_storage_get(&makers, sk, &maker, BPF_SK_STORAGE_GET_F_CREATE);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
