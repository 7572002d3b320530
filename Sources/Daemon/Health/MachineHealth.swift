import CLinux
import Glibc

/// What the machine gives a process, for `sallyport doctor`: its unit, limits, sandbox, clock and disk.
package enum MachineHealth {
  /// The facts of a process; without one, those of the machine alone. Only root and the process's own user may see the
  /// files that it writes.
  package static func facts(of process: Int32?) -> [HealthFact] {
    var facts: [HealthFact] = []
    func add(_ state: HealthFact.State, _ text: String) {
      facts.append(HealthFact(subject: .process, state: state, text: text))
    }
    if let process {
      let folder = "/proc/\(process)"
      if let unit = unit(in: text("\(folder)/cgroup")) { add(.good, "runs in \(unit)") }
      if let limit = openFiles(in: text("\(folder)/limits")) {
        let used = names(in: "\(folder)/fd").count
        let isTight = limit < 4096 || used > limit / 10 * 8
        add(isTight ? .warning : .good, "\(used) of \(limit) descriptors are open (LimitNOFILE=)")
      }
      let status = text("\(folder)/status")
      switch (value("NoNewPrivs", in: status), value("Seccomp", in: status)) {
      case (nil, _): break
      case ("1", "2"): add(.good, "is confined: no new privileges, system calls are filtered")
      case ("1", _): add(.warning, "gets no new privileges, but no system call is filtered (sandbox)")
      default: add(.warning, "may get new privileges, and is not confined (sandbox)")
      }
      for disk in disks(of: folder) { add(disk.state, disk.text) }
    }
    switch linux_clock_is_synchronized() {
    case 1: add(.good, "the clock is synchronized")
    case 0: add(.warning, "the clock is synchronized by nothing: certificates and lists are judged by it")
    default: break
    }
    return facts
  }

  /// The disks of the files that the process writes, each once.
  private static func disks(of folder: String) -> [(state: HealthFact.State, text: String)] {
    var seen: Set<UInt64> = []
    var found: [(HealthFact.State, String)] = []
    for name in names(in: "\(folder)/fd") {
      let path = "\(folder)/fd/\(name)"
      var file = stat()
      let isWritten = value("flags", in: text("\(folder)/fdinfo/\(name)")).flatMap { Int32($0, radix: 8) }
      guard stat(path, &file) == 0, file.st_mode & S_IFMT == S_IFREG, let isWritten, isWritten & O_ACCMODE != O_RDONLY,
        seen.insert(UInt64(file.st_dev)).inserted
      else { continue }
      var disk = statvfs()
      guard statvfs(path, &disk) == 0 else { continue }
      found.append(
        judge(
          free: UInt64(disk.f_bavail), of: UInt64(disk.f_blocks), inodes: UInt64(disk.f_favail),
          of: UInt64(disk.f_files), at: target(of: path)))
    }
    return found
  }

  static func judge(
    free: UInt64, of blocks: UInt64, inodes: UInt64, of files: UInt64, at path: String
  ) -> (HealthFact.State, String) {
    let share = blocks > 0 ? free / max(1, blocks / 100) : 100
    let left = files > 0 ? inodes / max(1, files / 100) : 100
    let least = min(share, left)
    return (
      least == 0 ? .failed : least < 5 ? .warning : .good,
      "the disk of \(path) has \(share) % of its room\(left < share ? " and \(left) % of its inodes" : "") free"
    )
  }

  /// cgroup(7): `0::/system.slice/sallyport.service`.
  static func unit(in text: String) -> String? {
    text.split(separator: "\n").compactMap { line in
      line.split(separator: "/").last { $0.hasSuffix(".service") || $0.hasSuffix(".scope") }.map(String.init)
    }.first
  }

  /// `Max open files            1024                 524288               files`; nil: there is no limit, or no such line.
  static func openFiles(in text: String) -> Int? {
    let line = text.split(separator: "\n").first { $0.hasPrefix("Max open files") }
    return line?.dropFirst("Max open files".count).split(separator: " ").first.flatMap { Int($0) }
  }

  /// `NoNewPrivs:	1`
  static func value(_ name: String, in text: String) -> String? {
    text.split(separator: "\n").first { $0.hasPrefix("\(name):") }?
      .dropFirst(name.utf8.count + 1).split(whereSeparator: \.isWhitespace).first.map(String.init)
  }

  private static func target(of path: String) -> String {
    var room = [UInt8](repeating: 0, count: 4096)
    let count = room.withUnsafeMutableBytes { bytes in
      bytes.bindMemory(to: CChar.self).baseAddress.map { readlink(path, $0, bytes.count) } ?? 0
    }
    return String(decoding: room.prefix(max(0, count)), as: UTF8.self)
  }

  private static func names(in folder: String) -> [String] {
    guard let stream = opendir(folder) else { return [] }
    defer { closedir(stream) }
    var names: [String] = []
    while let entry = readdir(stream) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name.first != "." { names.append(name) }
    }
    return names
  }

  /// A file of /proc; empty if this process may not read it.
  private static func text(_ path: String) -> String {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 16_384)
    let count = read(descriptor, &bytes, bytes.count)
    return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
  }
}
