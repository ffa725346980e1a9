"""A file system in memory that does not tell letters apart, served through /dev/fuse.

    fold.py DIR COMMAND...

Mounts it at DIR in a mount namespace of its own, runs COMMAND there and ends with its status. 98: there is no
/dev/fuse for us, or it cannot be mounted. Every spelling of a name is a name of its own to the kernel, as on the
drives of other systems: what is laid over one is not laid over another.
"""
import ctypes, errno, os, stat, struct, subprocess, sys, threading

LIBC = ctypes.CDLL(None, use_errno=True)


class Node:
    def __init__(self, mode, data=b""):
        self.mode, self.data, self.names, self.links = mode, bytearray(data), {}, 1


NODES = {1: Node(stat.S_IFDIR | 0o755)}


def attributes(number):
    node = NODES[number]
    size = len(node.data)
    return struct.pack("<QQQQQQIIIIIIIIII", number, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, node.mode, node.links,
                       os.getuid(), os.getgid(), 0, 4096, 0)


def entry(number):
    # Nothing is remembered, so that every spelling is looked up.
    return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + attributes(number)


def fold(name):
    return name.decode("utf-8", "surrogateescape").casefold()


def find(parent, name):
    names = NODES[parent].names
    if fold(name) not in names:
        raise OSError(errno.ENOENT, "")
    return names[fold(name)][1]


def add(parent, name, node):
    if fold(name) in NODES[parent].names:
        raise OSError(errno.EEXIST, "")
    number = max(NODES) + 1
    NODES[number] = node
    NODES[parent].names[fold(name)] = (name, number)
    return number


def take(parent, name):
    number = find(parent, name)
    if NODES[number].names:
        raise OSError(errno.ENOTEMPTY, "")
    del NODES[parent].names[fold(name)]


def rename(parent, to_parent, names):
    old, new = names.split(b"\0")[:2]
    number = find(parent, old)
    kept = NODES[to_parent].names.get(fold(new))
    if kept and NODES[kept[1]].names:
        raise OSError(errno.ENOTEMPTY, "")
    del NODES[parent].names[fold(old)]
    NODES[to_parent].names[fold(new)] = (new, number)


def set_attributes(number, body):
    valid, _, _, size = struct.unpack_from("<IIQQ", body)
    mode = struct.unpack_from("<I", body, 68)[0]
    node = NODES[number]
    if valid & 1:
        node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
    if valid & 8:
        node.data = node.data[:size].ljust(size, b"\0")
    return struct.pack("<QII", 0, 0, 0) + attributes(number)


def listing(number, offset, room):
    every = [(b".", number), (b"..", 1)] + list(NODES[number].names.values())
    out = b""
    for at, (name, child) in list(enumerate(every))[offset:]:
        one = struct.pack("<QQII", child, at + 1, len(name), NODES[child].mode >> 12) + name
        one += b"\0" * (-len(one) % 8)
        if len(out) + len(one) > room:
            break
        out += one
    return out


def answer(op, number, body):
    word = body.split(b"\0")[0]
    opened = struct.pack("<QII", number, 1, 0)
    if op == 26:  # INIT: version 7.31, nothing special
        return struct.pack("<IIIIHHIIHHI", 7, 31, 0, 0, 0, 0, 65536, 1, 0, 0, 0) + b"\0" * 28
    if op == 1:  # LOOKUP
        return entry(find(number, word))
    if op == 3:  # GETATTR
        return struct.pack("<QII", 0, 0, 0) + attributes(number)
    if op == 4:
        return set_attributes(number, body)
    if op == 5:  # READLINK
        return bytes(NODES[number].data)
    if op == 6:  # SYMLINK
        name, target = body.split(b"\0")[:2]
        return entry(add(number, name, Node(stat.S_IFLNK | 0o777, target)))
    if op in (8, 9):  # MKNOD, MKDIR
        mode = struct.unpack_from("<I", body)[0]
        kind = stat.S_IFDIR if op == 9 else 0
        return entry(add(number, body[8 if op == 9 else 16:].split(b"\0")[0], Node(kind | mode)))
    if op in (10, 11):  # UNLINK, RMDIR
        return take(number, word) or b""
    if op == 12:
        return rename(number, struct.unpack_from("<Q", body)[0], body[8:]) or b""
    if op == 45:
        return rename(number, struct.unpack_from("<Q", body)[0], body[16:]) or b""
    if op in (14, 27):  # OPEN, OPENDIR
        if op == 14 and struct.unpack_from("<I", body)[0] & os.O_TRUNC:
            NODES[number].data = bytearray()
        return opened
    if op == 15:  # READ
        _, offset, size = struct.unpack_from("<QQI", body)
        return bytes(NODES[number].data[offset:offset + size])
    if op == 16:  # WRITE
        _, offset, size = struct.unpack_from("<QQI", body)
        data = NODES[number].data
        data.extend(b"\0" * (offset - len(data)))
        data[offset:offset + size] = body[40:40 + size]
        return struct.pack("<II", size, 0)
    if op == 17:  # STATFS
        return struct.pack("<QQQQQIIII", 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096, 0) + b"\0" * 24
    if op in (18, 20, 25, 29, 30, 34):  # RELEASE, FSYNC, FLUSH, RELEASEDIR, FSYNCDIR, ACCESS
        return b""
    if op == 28:  # READDIR
        _, offset, size = struct.unpack_from("<QQI", body)
        return listing(number, offset, size)
    if op == 35:  # CREATE
        mode = struct.unpack_from("<II", body)[1]
        made = add(number, body[16:].split(b"\0")[0], Node(stat.S_IFREG | stat.S_IMODE(mode)))
        return entry(made) + struct.pack("<QII", made, 1, 0)
    raise OSError(errno.ENOSYS, "")


def serve(device):
    while True:
        try:
            request = os.read(device, 1 << 18)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue
            return
        _, op, unique, number = struct.unpack_from("<IIQQ", request)
        if op in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET
            continue
        try:
            code, out = 0, answer(op, number, request[40:])
        except OSError as error:
            code, out = -error.errno, b""
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(out), code, unique) + out)
        except OSError:
            pass


def main():
    place, command = sys.argv[1], sys.argv[2:]
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        print("no /dev/fuse:", error, file=sys.stderr)
        return 98
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other,default_permissions"
    if LIBC.mount(b"fold", place.encode(), b"fuse", 0, options.encode()) != 0:
        print("cannot mount:", os.strerror(ctypes.get_errno()), file=sys.stderr)
        return 98
    threading.Thread(target=serve, args=(device,), daemon=True).start()
    try:
        return subprocess.run(command).returncode
    finally:
        LIBC.umount2(place.encode(), 2)


sys.exit(main())
