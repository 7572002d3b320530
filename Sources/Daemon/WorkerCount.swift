import Configuration
import Forward
import Glibc
import Traffic

extension WorkerCount {
  /// `auto`: the number of CPUs that are online, or the cgroup's CPU quota if that is lower.
  var resolved: Int {
    switch self {
    case .fixed(let count): max(1, count)
    case .auto: min(max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))), Self.quota ?? .max)
    }
  }

  /// cpu.max of this process's cgroup (cgroup v2), rounded up to whole CPUs; nil without a quota.
  private static var quota: Int? {
    guard let own = firstLines("/proc/self/cgroup").first(where: { $0.hasPrefix("0::") }),
      let line = firstLines("/sys/fs/cgroup\(own.dropFirst(3))/cpu.max").first
    else { return nil }
    let words = line.split(separator: " ")
    guard words.count == 2, let quota = Int(words[0]), let period = Int(words[1]), quota > 0, period > 0 else {
      return nil
    }
    return max(1, quota / period + (quota % period == 0 ? 0 : 1))
  }

  private static func firstLines(_ path: String) -> [Substring] {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return [] }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = read(file, &bytes, bytes.count)
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).split(whereSeparator: \.isNewline)
  }
}
