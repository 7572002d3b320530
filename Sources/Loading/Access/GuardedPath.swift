import CLinux
import Glibc

/// The user that serves, as the kernel checks it.
package struct ServingUser: Sendable, Hashable {
  let user: uid_t
  /// Its own group and the supplementary ones.
  let groups: Set<gid_t>
  /// For messages.
  let name: String
}

/// Opens a file by a path whose every step is checked before it is taken.
///
/// Root opens what somebody else may have put there: a link in a folder that others can write could lead anywhere. So each
/// folder and each link on the way is looked at, as openat(2) finds it, and no link is followed unseen.
struct GuardedPath {
  /// Who may have a say in where the path leads.
  enum Trust: Sendable, Hashable {
    /// Root alone: each file and folder is root's, and nobody else can write it.
    case rootAlone
    /// Anybody but this user. Who owns a link must own what it leads to.
    case anybodyBut(ServingUser)
  }

  enum Use: Sendable { case read, append }

  private static let mostLinks = 40

  private let trust: Trust
  private let use: Use
  /// The folder that has been reached, without links; empty for the root.
  private var place = ""
  private var folder: Int32 = -1
  /// Whether others can make files in that folder. Only what is root's is then taken from it.
  private var isShared = false
  /// Who made the links on the way, without root.
  private var linkOwners: Set<uid_t> = []

  /// Returns a descriptor of a regular file, of a folder that is to be read, or of a named pipe that is to be written. A
  /// log that is missing is made. Blocks if the file system does.
  static func open(_ path: String, for use: Use, trusting trust: Trust) throws(OpenerRefusal) -> Int32 {
    guard let whole = absolute(path) else { throw OpenerRefusal(ENOENT) }
    var walk = GuardedPath(trust: trust, use: use)
    defer { if walk.folder >= 0 { close(walk.folder) } }
    return try walk.open(whole)
  }

  private init(trust: Trust, use: Use) {
    self.trust = trust
    self.use = use
  }

  private static func absolute(_ path: String) -> String? {
    if path.hasPrefix("/") { return path }
    guard let folder = getcwd(nil, 0) else { return nil }
    defer { free(folder) }
    return "\(String(cString: folder))/\(path)"
  }

  private mutating func open(_ path: String) throws(OpenerRefusal) -> Int32 {
    try beginAtRoot()
    // The last name of the rest comes first.
    var rest = Array(path.split(separator: "/").map(String.init).reversed())
    var links = 0
    while let name = rest.popLast() {
      if name == "." { continue }
      if name == ".." {
        try enter(name, "/" + place.split(separator: "/").dropLast().joined(separator: "/"))
        continue
      }
      var status = stat()
      guard fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
        guard errno == ENOENT, rest.isEmpty, use == .append else { throw OpenerRefusal(errno) }
        return try last(name)
      }
      guard status.st_mode & S_IFMT == S_IFLNK else {
        if rest.isEmpty { return try last(name) }
        try enter(name, "\(place)/\(name)")
        continue
      }
      links += 1
      guard links <= Self.mostLinks else { throw OpenerRefusal(ELOOP) }
      try check(link: status, "\(place)/\(name)")
      let target = try read(link: name)
      if target.hasPrefix("/") { try beginAtRoot() }
      rest += target.split(separator: "/").map(String.init).reversed()
    }
    return try last(".")
  }

  private mutating func beginAtRoot() throws(OpenerRefusal) {
    let root = linux_openat(AT_FDCWD, "/", linux_o_path() | O_DIRECTORY | O_CLOEXEC)
    guard root >= 0 else { throw OpenerRefusal(errno) }
    try take(root, "")
  }

  private mutating func enter(_ name: String, _ path: String) throws(OpenerRefusal) {
    let next = linux_openat(folder, name, linux_o_path() | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
    guard next >= 0 else { throw OpenerRefusal(errno) }
    try take(next, path == "/" ? "" : path)
  }

  private mutating func take(_ next: Int32, _ path: String) throws(OpenerRefusal) {
    if folder >= 0 { close(folder) }
    folder = next
    var status = stat()
    guard fstat(next, &status) == 0 else { throw OpenerRefusal(errno) }
    let wasShared = isShared
    place = path
    isShared = try check(folder: status, isIn: wasShared, path.isEmpty ? "/" : path)
  }

  private func read(link name: String) throws(OpenerRefusal) -> String {
    var target = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlinkat(folder, name, &target, target.count)
    guard count > 0, count < target.count else { throw OpenerRefusal(count < 0 ? errno : ENAMETOOLONG) }
    return String(decoding: target[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Opens the file that the path has led to.
  private func last(_ name: String) throws(OpenerRefusal) -> Int32 {
    let flags = O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY
    let path = name == "." ? place : "\(place)/\(name)"
    let opened: Int32
    switch use {
    case .read: opened = openat(folder, name, flags | O_RDONLY)
    case .append:
      var status = stat()
      // As `LogFile`: without a reader, opening a named pipe for writing alone would fail.
      let isPipe =
        fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_mode & S_IFMT == S_IFIFO
      opened = openat(folder, name, flags | O_APPEND | (isPipe ? O_RDWR : O_WRONLY | O_CREAT), 0o640)
    }
    guard opened >= 0 else {
      // Root passes over modes, so Landlock refused it.
      throw errno == EACCES
        ? OpenerRefusal(
          EACCES, "the opener of root's files writes in folders of the start's logs alone: restart for \"\(path)\"")
        : OpenerRefusal(errno)
    }
    do throws(OpenerRefusal) {
      var status = stat()
      guard fstat(opened, &status) == 0 else { throw OpenerRefusal(errno) }
      try check(opened: status, path)
      return opened
    } catch {
      close(opened)
      throw error
    }
  }

  // MARK: Who has a say

  /// Returns whether others can make files in the folder.
  private func check(folder status: stat, isIn shared: Bool, _ path: String) throws(OpenerRefusal) -> Bool {
    try check(owner: status, isIn: shared, path)
    let isSticky = status.st_mode & S_ISVTX != 0
    switch trust {
    case .rootAlone:
      guard status.st_mode & 0o022 != 0 else { return false }
      guard isSticky else { throw changeable(path, "its group or others can write it") }
      return true
    case .anybodyBut(let user):
      let isGroupOfUser =
        status.st_mode & 0o020 != 0 && (user.groups.contains(status.st_gid) || linux_has_access_list(path) != 0)
      guard isGroupOfUser || status.st_mode & 0o002 != 0 else { return false }
      guard isSticky else { throw changeable(path, "\(user.name) can write it") }
      return true
    }
  }

  private mutating func check(link status: stat, _ path: String) throws(OpenerRefusal) {
    try check(owner: status, isIn: isShared, path)
    if status.st_uid != 0 { linkOwners.insert(status.st_uid) }
  }

  private func check(opened status: stat, _ path: String) throws(OpenerRefusal) {
    switch (status.st_mode & S_IFMT, use) {
    case (S_IFREG, _), (S_IFIFO, .append): break
    case (S_IFDIR, .read):
      _ = try check(folder: status, isIn: isShared, path)
      return
    default: throw OpenerRefusal(EACCES, "\"\(path)\" is not a regular file")
    }
    guard !isShared || status.st_uid == 0 && status.st_nlink == 1 else {
      throw changeable(path, "it is in a shared folder")
    }
    guard linkOwners.isSubset(of: [status.st_uid]) else {
      throw OpenerRefusal(EACCES, "a link to \"\(path)\" belongs to another user than the file")
    }
    guard case .rootAlone = trust else { return }
    guard status.st_uid == 0 else { throw changeable(path, "its owner is not root") }
    guard status.st_mode & 0o022 == 0 else { throw changeable(path, "its group or others can write it") }
  }

  /// `isIn`: whether the folder above lets others make files.
  private func check(owner status: stat, isIn shared: Bool, _ path: String) throws(OpenerRefusal) {
    switch trust {
    case .rootAlone: guard status.st_uid == 0 else { throw changeable(path, "its owner is not root") }
    case .anybodyBut(let user):
      guard status.st_uid != user.user else { throw changeable(path, "its owner is \(user.name)") }
      guard !shared || status.st_uid == 0 else { throw changeable(path, "it is in a shared folder") }
    }
  }

  private func changeable(_ path: String, _ why: String) -> OpenerRefusal {
    OpenerRefusal(EACCES, "\"\(path)\" can be changed by others than root: \(why)")
  }
}
