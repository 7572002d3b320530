import CLinux
import Glibc

/// What a path leads to, asked of the file system.
public enum DiskPath {
  public static func look(_ path: String) -> PathState? {
    var status = stat()
    let isLink = lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
    if stat(path, &status) == 0, let real = real(path) {
      return PathState(real: real, isFolder: status.st_mode & S_IFMT == S_IFDIR, isLink: isLink)
    }
    var above = path
    while above != "/" && above != "." {
      above = FileRules.parent(of: above)
      if let real = real(above) { return PathState(real: real, exists: false, isFolder: true, isLink: isLink) }
    }
    return nil
  }

  private static func real(_ path: String) -> String? {
    guard let real = realpath(path, nil) else { return nil }
    defer { free(real) }
    return String(cString: real)
  }
}

extension FileRules {
  /// What the libraries of the process open, whatever the configuration says.
  ///
  /// Of /etc every file may be read by its name, because programs replace `resolv.conf`, `hosts` and `nsswitch.conf` by
  /// renames. The rights of the files' owners and modes hold there as everywhere.
  public mutating func grantSystem(_ environment: (String) -> String?) {
    grant(.readOnlyByName, "/etc")
    for path in [
      // Trust anchors and OpenSSL's settings, of Debian's and of Red Hat's family.
      "/etc/ssl/certs", "/etc/pki", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
      "/usr/share/pki", "/etc/crypto-policies", "/usr/share/crypto-policies",
      // Libraries that are loaded when they are needed: of names, of character sets, of OpenSSL's providers.
      "/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo",
      "/sys/devices/system/cpu", "/sys/fs/cgroup", "/proc/sys", "/proc/self", "/dev/urandom", "/dev/random",
    ] { grantReal(.read, path) }
    for path in ["/dev/null", "/dev/zero"] { grantReal(.device, path) }
    // Where these are links, what replaces their targets may be read too.
    for path in ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/localtime"] {
      guard let state = DiskPath.look(path), state.exists, !state.real.hasPrefix("/etc/") else { continue }
      let folder = Self.parent(of: state.real)
      grant(.readOnlyByName, Self.tooWide.contains(folder) ? state.real : folder)
    }
    for name in ["SSL_CERT_DIR", "OPENSSL_MODULES", "OPENSSL_ENGINES", "CREDENTIALS_DIRECTORY"] {
      if let path = environment(name) { grantReal(.read, path) }
    }
    // The folders that the service manager has made for this service alone: a reload may be the first to name them.
    for (name, access) in [
      ("RUNTIME_DIRECTORY", FileAccess.change), ("STATE_DIRECTORY", .change), ("CACHE_DIRECTORY", .change),
      ("LOGS_DIRECTORY", .append),
    ] {
      for path in (environment(name) ?? "").split(separator: ":") { grantReal(access, String(path)) }
    }
    for name in ["SSL_CERT_FILE", "OPENSSL_CONF", "TZDIR"] {
      if let path = environment(name), let state = DiskPath.look(path), state.exists {
        grant(.readOnlyByName, state.real)
      }
    }
  }

  private mutating func grantReal(_ access: FileAccess, _ path: String) {
    guard let state = DiskPath.look(path), state.exists, !Self.tooWide.contains(state.real) else { return }
    grant(state.isFolder ? access : access.intersection(.ofPlainFile), state.real)
  }
}
