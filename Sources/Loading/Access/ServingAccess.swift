import Configuration
import Crypto
import Enrolment
import Features
import Forward
import Glibc
package import Language
package import Observability
import TLS
package import Traffic

/// Finds the files that the serving user can't read, although root could when it started the process.
///
/// Call this after privileges were dropped. The results are warnings, because the loaded material serves. But a reload
/// opens the same files again: those that it can't open keep their content. And each request opens some files.
package enum ServingAccess {
  /// Checks a configuration that root has just loaded. Empty when no privileges were dropped or every file can be read.
  /// `missing`: files that root did not find either, of which an error tells, and folders that a start makes. `refusal`: why
  /// `PrivilegedOpener` would not open something; nil if it would.
  package static func warnings(
    _ settings: Settings, configuration source: ConfigurationSource, sharing shared: SharedState,
    besides missing: Set<String> = [], refusal: (OpenerRequest) -> OpenerRefusal?
  ) -> [Diagnostic] {
    let user = geteuid() == 0 ? "root" : name(geteuid())
    return unreadable(settings, source, user, besides: missing, refusal) + closedLogs(settings, user, refusal)
      + closedAuthorities(settings.http, user, shared)
      + closedToRequests(settings.http, user, besides: missing, refusal) + closedToHandshakes(settings.http, user)
  }

  /// What `warnings` may ask of an opener. Not a log that is missing, which a trial would make.
  package static func requests(_ settings: Settings) -> [OpenerRequest] {
    let read = settings.http.reloadedFiles.union(passwordFiles(settings.http).map(\.path))
    return [OpenerRequest(.configuration)] + read.map { OpenerRequest(.read, $0) }
      + FileNeeds.fixedLogs(settings).filter { access($0, F_OK) == 0 }.map { OpenerRequest(.append, $0) }
  }

  private static func because(_ refusal: OpenerRefusal) -> String { refusal.reason.map { "; \($0)" } ?? "" }

  // MARK: Reloads

  private static func unreadable(
    _ settings: Settings, _ source: ConfigurationSource, _ user: String, besides missing: Set<String>,
    _ refusal: (OpenerRequest) -> OpenerRefusal?
  ) -> [Diagnostic] {
    let hint = hint(settings.main)
    // The process will write them itself.
    let awaited = Set(
      settings.http.servers.compactMap(\.tls).flatMap(\.certificates).filter(\.isAwaited).compactMap {
        try? $0.certificate.resolvedPath(expecting: .certificate)
      })
    let closed = settings.http.reloadedFiles.subtracting(missing).filter { path in
      access(path, R_OK) != 0 && !(errno == ENOENT && awaited.contains(path))
    }
    let places = closed.isEmpty ? [:] : places(of: settings.http.materialReferences)
    let material = closed.sorted().compactMap { path -> Diagnostic? in
      guard let refused = refusal(OpenerRequest(.read, path)) else { return nil }
      let facts = AccessDenial(of: path, EACCES).map { ": \($0.facts)" } ?? ""
      return Diagnostic(
        .warning, at: places[path],
        "\"\(path)\" can't be read as the user that serves, \(user): a change of it has no effect until a restart\(facts)\(because(refused))",
        hint: hint)
    }
    guard let fault = Configuration.readingFaults(source).first,
      let refused = refusal(OpenerRequest(.configuration))
    else { return material }
    return [
      Diagnostic(
        .warning, at: fault.location,
        "the user that serves, \(user), can't read the configuration: no HUP will succeed: "
          + "\(fault.message)\(because(refused))",
        hint: hint)
    ] + material
  }

  /// Where the configuration first names each file.
  private static func places(of references: [MaterialReference]) -> [String: SourceLocation] {
    references.reduce(into: [:]) { places, reference in
      guard let path = try? reference.resolvedPath(expecting: .certificate), places[path] == nil else { return }
      places[path] = reference.location
    }
  }

  private static func hint(_ main: MainSettings) -> String {
    let aloud = main.user == nil ? ", or say `user root;` to stay root" : ""
    return "let the group of `user` read it, or start as that user (systemd: User=, LoadCredential=)\(aloud)"
  }

  /// USR1 opens the logs again by name.
  private static func closedLogs(
    _ settings: Settings, _ user: String, _ refusal: (OpenerRequest) -> OpenerRefusal?
  ) -> [Diagnostic] {
    // A log that does not exist yet is created at the start, so it needs no warning.
    let closed = FileNeeds.fixedLogs(settings).filter { access($0, W_OK) != 0 && errno != ENOENT }
    return closed.compactMap { path in
      guard let refused = refusal(OpenerRequest(.append, path)) else { return nil }
      return Diagnostic(
        .warning, at: nil,
        "\"\(path)\" can't be opened again as the user that serves, \(user): USR1 leaves it as it is\(because(refused))",
        hint: "chown \(user) \(path), and let log rotation create it so")
    }
  }

  // MARK: Requests

  private static func closedAuthorities(
    _ http: HTTPSettings, _ user: String, _ shared: SharedState
  ) -> [Diagnostic] {
    var seen: Set<MaterialReference> = []
    return http.everyLocation.compactMap { place in
      guard let desk = place.settings[EnrolmentSettings.self], seen.insert(desk.authority).inserted,
        let reason = fault(desk, shared)
      else { return nil }
      return Diagnostic(
        .warning, at: desk.authority.location,
        "\"\(desk.authority)\" can't be used by the user that serves, \(user): nobody will be enrolled: \(reason)",
        hint: "chown -R \(user) \(desk.authority)")
    }
  }

  private static func fault(_ desk: EnrolmentSettings, _ shared: SharedState) -> String? {
    do throws(AuthorityError) { try EnrolmentService(desk, shared.enrolment).trial() } catch { return error.message }
    guard let folder = try? desk.authority.resolvedPath(expecting: .anchors) else { return nil }
    if access(folder, W_OK | X_OK) == 0 { return nil }
    return "it can't be written: \(String(cString: strerror(errno)))"
  }

  private static func passwordFiles(_ http: HTTPSettings) -> [(users: MaterialReference, path: String)] {
    var seen: Set<MaterialReference> = []
    return http.everyLocation.compactMap { place in
      guard let users = place.settings[AuthBasic.self]?.users, seen.insert(users).inserted,
        let path = try? users.resolvedPath(expecting: .users)
      else { return nil }
      return (users, path)
    }
  }

  private static func closedToRequests(
    _ http: HTTPSettings, _ user: String, besides missing: Set<String>, _ refusal: (OpenerRequest) -> OpenerRefusal?
  ) -> [Diagnostic] {
    let passwords: [Diagnostic] = passwordFiles(http).compactMap { users, path in
      guard access(path, R_OK) != 0, let refused = refusal(OpenerRequest(.read, path)) else { return nil }
      return Diagnostic(
        .warning, at: users.location,
        "\"\(users)\" can't be read as the user that serves, \(user): no password in it is accepted\(because(refused))",
        hint: "chgrp, and chmod 640")
    }
    let folders = Set(http.everyLocation.filter(\.settings.keepsBodies).map { $0.settings.bodyFolder })
      .subtracting(missing)
    let logs = Set(
      http.everyLocation.flatMap { $0.settings.accessLogs }.compactMap { log in
        if case .folder(let settings) = log.destination { settings } else { nil as LogFolderSettings? }
      })
    let closed = logs.sorted { $0.text < $1.text }.filter { access($0.folder, W_OK | X_OK) != 0 }
    return passwords
      + closed.map { log in
        Diagnostic(
          .warning, at: nil,
          "no file can be made in \"\(log.folder)\" by the user that serves, \(user): \(log.text) gets no lines",
          hint: "chown \(user) \(log.folder)")
      }
      + folders.sorted().filter { access($0, W_OK | X_OK) != 0 }.map { folder in
        let reason = String(cString: strerror(errno))
        return Diagnostic(
          .warning, at: nil,
          "no file can be made in \"\(folder)\" (\(reason)): a request body that needs one gets 500",
          hint: "a tmpfs there, TMPDIR=, or a client_body_buffer_size as large as client_max_body_size")
      }
  }

  private static func name(_ user: uid_t) -> String {
    getpwuid(user).map { String(cString: $0.pointee.pw_name) } ?? "\(user)"
  }
}

extension LocationSettings {
  /// Whether the location may write a request body to a file, because it is larger than what stays in memory.
  var keepsBodies: Bool {
    guard let pass = self[UpstreamPass.self], pass.buffers.collectsRequests else { return false }
    if bodyFiles?.isForEachBody ?? false { return true }
    guard let memory = limits.bodyBufferSize else { return true }
    return limits.maxBodySize == 0 || limits.maxBodySize > UInt64(clamping: memory)
  }
}
