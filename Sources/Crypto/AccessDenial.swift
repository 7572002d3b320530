package import Glibc

/// Why this process may not open a file, as an operator needs it: whose the file is, who tried, and what to do here.
package struct AccessDenial: Sendable, Equatable {
  /// What runs the process. It decides how a file is handed to it.
  package enum Surroundings: Sendable, Equatable {
    case systemd, kubernetes, container, plain

    /// Read from the environment, and from the files that container engines leave.
    package static var own: Surroundings {
      if getenv("KUBERNETES_SERVICE_HOST") != nil { return .kubernetes }
      if access("/run/.containerenv", F_OK) == 0 || access("/.dockerenv", F_OK) == 0 { return .container }
      return getenv("INVOCATION_ID") == nil ? .plain : .systemd
    }
  }

  /// A user and a group with their numbers.
  package struct Holder: Sendable, Equatable {
    package var user: uid_t
    package var group: gid_t
    package init(user: uid_t, group: gid_t) {
      self.user = user
      self.group = group
    }
  }

  /// `its owner is root:root, its mode 0600, and sallyport tried as nobody:nogroup`.
  package let facts: String
  package let hint: String

  /// Looks at the file now. nil: the file could be reached and read by its mode, or it is not there.
  ///
  /// `code`: what the system said.
  package init?(of path: String, _ code: CInt, in surroundings: Surroundings = .own) {
    guard code == EACCES || code == EPERM else { return nil }
    let tried = Holder(user: geteuid(), group: getegid())
    if let folder = Self.closedFolder(of: path) {
      self.init(path, folder: folder, Self.status(folder), tried, in: surroundings)
    } else {
      self.init(path, folder: nil, Self.status(path), tried, in: surroundings)
    }
  }

  /// `folder`: the folder of the path that can't be entered; nil when it is the file itself. `status`: owner and mode of
  /// the one or the other; nil when even that is hidden.
  package init(
    _ path: String, folder: String?, _ status: (owner: Holder, mode: mode_t)?, _ tried: Holder,
    in surroundings: Surroundings
  ) {
    let who = "sallyport tried as \(Self.words(tried))"
    let whose =
      status.map {
        "its owner is \(Self.words($0.owner)), its mode \(Self.octal($0.mode)), and "
      } ?? ""
    facts = folder.map { "the folder \($0) can't be entered: \(whose)\(who)" } ?? "\(whose)\(who)"
    if folder == nil, let status, Self.allows(status, tried) {
      hint =
        "the mode lets it read the file, and something else forbids it: AppArmor, SELinux, the unit's sandbox, or `sandbox` of sallyport"
    } else {
      hint = Self.hint(path, folder: folder, tried, in: surroundings)
    }
  }

  /// Whether the mode lets a user read the file. Supplementary groups are left out, so it may say no too often.
  private static func allows(_ status: (owner: Holder, mode: mode_t), _ tried: Holder) -> Bool {
    if status.owner.user == tried.user { return status.mode & 0o400 != 0 }
    if status.owner.group == tried.group { return status.mode & 0o040 != 0 }
    return status.mode & 0o004 != 0
  }

  private static func hint(
    _ path: String, folder: String?, _ tried: Holder, in surroundings: Surroundings
  ) -> String {
    let own = name(ofGroup: tried.group)
    // Root without the right to pass over modes, and a user that shares its group with other services: `sallyport` is
    // the package's group.
    let isShared = tried.group == 0 || ["nogroup", "nobody"].contains(own)
    let group = isShared ? "sallyport" : own
    let opened =
      (folder.map { "chgrp \(group) \($0) && chmod g+x \($0)" } ?? "chgrp \(group) \(path) && chmod 0640 \(path)")
      + (isShared ? " and run it as the user sallyport" : "")
    switch surroundings {
    case .systemd:
      let name = path.split(separator: "/").last.map(String.init) ?? "key"
      let hidden =
        ["/home/", "/root/", "/run/user/"].contains { path.hasPrefix($0) }
        ? "; ProtectHome= in the unit hides what is under /home and /root" : ""
      return "LoadCredential=\(name):\(path) in the unit and credential:\(name) here, or \(opened)\(hidden)"
    case .kubernetes:
      return
        "the container runs as uid \(tried.user): set fsGroup: \(tried.group == 0 ? tried.user : tried.group) in the pod's securityContext and defaultMode: 0440 in the volume"
    case .container:
      return
        "the image runs as uid \(tried.user): give the file to it on the host (chown \(tried.user) FILE && chmod 0400 FILE), or to its group \(tried.group) with mode 0640"
    case .plain: return "\(opened), or run the command as a user that may read it"
    }
  }

  // MARK: Facts of the system

  /// The first folder on the way to the file that this process can't enter.
  private static func closedFolder(of path: String) -> String? {
    var folder = ""
    for part in path.split(separator: "/").dropLast() {
      folder += path.hasPrefix("/") || !folder.isEmpty ? "/\(part)" : String(part)
      if access(folder, X_OK) != 0, errno == EACCES { return folder }
    }
    return nil
  }

  private static func status(_ path: String) -> (owner: Holder, mode: mode_t)? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    return (Holder(user: status.st_uid, group: status.st_gid), status.st_mode & 0o7777)
  }

  private static func octal(_ mode: mode_t) -> String {
    let digits = String(mode, radix: 8)
    return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }

  private static func words(_ holder: Holder) -> String {
    let user = getpwuid(holder.user).map { String(cString: $0.pointee.pw_name) } ?? "\(holder.user)"
    return "\(user):\(name(ofGroup: holder.group))"
  }

  private static func name(ofGroup group: gid_t) -> String {
    getgrgid(group).map { String(cString: $0.pointee.gr_name) } ?? "\(group)"
  }
}
