import CLinux
import Forward
import Glibc
import Traffic

extension ProcessFigures {
  /// Asks the kernel. Reads /proc, so never on an event loop.
  static func sample() -> ProcessFigures {
    var figures = ProcessFigures()
    figures.residentMemory = residentPages.flatMap { pages in
      let (bytes, overflow) = pages.multipliedReportingOverflow(by: Int64(sysconf(Int32(_SC_PAGESIZE))))
      return overflow ? nil : bytes
    }
    var usage = rusage()
    if getrusage(RUSAGE_SELF.rawValue, &usage) == 0 {
      let seconds = Int64(usage.ru_utime.tv_sec) &+ Int64(usage.ru_stime.tv_sec)
      figures.cpuTime = seconds &* 1000 &+ (Int64(usage.ru_utime.tv_usec) &+ Int64(usage.ru_stime.tv_usec)) / 1000
    }
    figures.openDescriptors = descriptors
    var limit = rlimit()
    if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
      figures.descriptorLimit = Int64(clamping: limit.rlim_cur)
    }
    return figures
  }

  /// The second number of /proc/self/statm.
  private static var residentPages: Int64? {
    let descriptor = open("/proc/self/statm", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var text = [UInt8](repeating: 0, count: 128)
    let count = text.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
    guard count > 0 else { return nil }
    let numbers = text.prefix(count).split(separator: 0x20)
    return numbers.count > 1 ? Int64(String(decoding: numbers[1], as: UTF8.self)) : nil
  }

  private static var descriptors: Int64? {
    guard let folder = opendir("/proc/self/fd") else { return nil }
    defer { closedir(folder) }
    var count: Int64 = 0
    while readdir(folder) != nil { count += 1 }
    // "." and "..", and the folder's own descriptor.
    return max(0, count - 3)
  }
}
