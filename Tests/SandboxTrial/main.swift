import CLinux
import CTrial
import Glibc
import Sandbox

// Does one thing inside a sandbox and prints what came of it: "allowed", or errno's name in words. The first argument is
// a folder that may be changed, the second the name of the attempt; `free` as third argument leaves the sandbox out, and
// `opener` makes it that of the process that opens files for another one.

func report(_ result: Int) -> Never {
  print(result >= 0 ? "allowed" : String(cString: strerror(errno)))
  exit(0)
}

let words = CommandLine.arguments
guard words.count >= 3 else { exit(2) }
let (folder, attempt, kind) = (words[1], words[2], words.count > 3 ? words[3] : "serving")

/// A port of this machine on which nobody listens.
func address(_ use: (UnsafePointer<sockaddr>, socklen_t) -> Int) -> Int {
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_port = UInt16(9).bigEndian
  address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
  return withUnsafePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { use($0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
  }
}

if kind != "free" {
  guard PrivilegeLimits.set() == nil else { exit(3) }
  let isOpener = kind == "opener"
  let need = isOpener ? FileNeed(.append, "\(folder)/log") : FileNeed(.change, folder)
  var rules = FileRules([need], look: DiskPath.look)
  if isOpener { rules.grant(.read, "/") } else { rules.grantSystem { _ in nil } }
  if let version = Landlock.version {
    guard Landlock.restrict(to: rules) == .restricted(version: version) else { exit(4) }
  }
  guard SystemCallFilter.install(for: isOpener ? .opening(channel: 99) : .serving) == .installed else { exit(5) }
}

switch attempt {
case "read-inside": report(Int(open("\(folder)/in", O_RDONLY)))
case "write-inside": report(Int(open("\(folder)/new", O_WRONLY | O_CREAT, 0o600)))
case "read-outside": report(Int(open("\(folder)/../outside", O_RDONLY)))
case "read-by-link": report(Int(open("\(folder)/link", O_RDONLY)))
case "write-outside": report(Int(open("\(folder)/../made", O_WRONLY | O_CREAT, 0o600)))
case "write-etc": report(Int(open("/etc/sallyport-trial", O_WRONLY | O_CREAT, 0o600)))
case "list-home": report(opendir("/root") == nil ? -1 : 0)
case "resolv.conf": report(Int(open("/etc/resolv.conf", O_RDONLY)))
case "execve": report(trial_exec())
case "process": report(trial_fork())
case "thread": report(trial_thread())
case "netlink": report(Int(socket(AF_NETLINK, Int32(SOCK_RAW.rawValue), 0)))
case "packet": report(Int(socket(AF_PACKET, Int32(SOCK_RAW.rawValue), 0)))
case "tcp": report(Int(socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)))
case "setuid": report(Int(setuid(1)))
case "setrlimit":
  var limit = rlimit()
  _ = getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  limit.rlim_cur = limit.rlim_cur > 1 ? limit.rlim_cur - 1 : 0
  report(Int(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)))
case "signal-parent": report(Int(kill(getppid(), 0)))
case "signal-self": report(Int(kill(getpid(), 0)))
case "tiocsti":
  var byte: CChar = 10
  report(Int(ioctl(0, UInt(0x5412), &byte)))
case "chmod": report(Int(chmod("\(folder)/in", 0o600)))
case "unlink": report(Int(unlink("\(folder)/in")))
case "connect":
  let stream = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  report(address { Int(connect(stream, $0, $1)) })
case "send":
  let datagrams = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
  report(address { sendto(datagrams, "x", 1, 0, $0, $1) })
case "ptrace": report(trial_ptrace())
case "mount": report(Int(mount("none", folder, "tmpfs", 0, nil)))
case "unshare": report(trial_unshare())
case "bpf": report(trial_bpf())
default: exit(6)
}
