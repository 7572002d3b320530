import ACME
import CLinux
import Configuration
import Crypto
import Features
import Forward
import Glibc
package import Language
package import Loading
package import Observability
import Sandbox
package import Traffic

/// The sandbox of this process: the files that Landlock leaves it, and the system calls that seccomp leaves it.
///
/// Landlock takes effect after the configuration was parsed and before the process has a second thread, because a thread
/// has the rules of the thread that started it. The filter of system calls takes effect last, for all threads at once:
/// the start itself changes the user and limits.
package struct Confinement: Sendable {
  private enum Files: Sendable {
    case off
    /// Landlock is in effect, by these rules.
    case restricted(FileRules, version: Int32)
    case free(because: String)
  }

  /// nil: this process can start others itself.
  let starter: BinaryStarter?
  /// nil: no program is needed for dns-01, or the process could not be copied.
  let hook: ChallengeHook?
  /// nil: this process keeps the rights of its start, or could not be copied.
  let opener: PrivilegedOpener?
  private let wanted: SandboxSettings
  private let files: Files
  private let hasSanitizer: Bool
  private let keyMemory: SecureHeap.Outcome
  /// nil: the filter is not in effect.
  private var callFault: String?
  private var filtersCalls = false
  package private(set) var diagnostics: [Diagnostic] = []

  /// Gives up what no part of the process needs, and restricts its files. Call this before a second thread exists.
  package static func begin(_ settings: Settings, configuration source: ConfigurationSource) throws(Refusal)
    -> Confinement
  {
    // Before rights are given up, because the new process is to be able to do what a start does. Process 1 can't be replaced.
    let isPossible = linux_has_sanitizer() == 0 && PrivilegeLimits.threads ?? 1 == 1 && getpid() != 1
    // Without a sandbox, this process could start the program, but not as root any more.
    let isNeeded = settings.main.sandbox != .off || Privileges.userToBecome(settings.main) != nil
    let starter = isPossible && isNeeded ? BinaryStarter.fork() : nil
    if let fault = PrivilegeLimits.set() {
      throw Refusal([
        Diagnostic(.error, at: nil, "\(fault.call) failed (\(fault.code): \(String(cString: strerror(fault.code))))")
      ])
    }
    // Before keys are read, and after rights are given up, which no program needs.
    return Confinement(
      settings, source, starter, ChallengeHook.fork(settings), PrivilegedOpener.fork(settings, source))
  }

  private init(
    _ settings: Settings, _ source: ConfigurationSource, _ starter: BinaryStarter?, _ hook: ChallengeHook?,
    _ opener: PrivilegedOpener?
  ) {
    self.starter = starter
    self.hook = hook
    self.opener = opener
    wanted = settings.main.sandbox
    hasSanitizer = linux_has_sanitizer() != 0
    let material = settings.http.materialReferences
    keyMemory = KeyMemory.lock(settings, files: material.count)
    guard wanted.restrictsFiles, !hasSanitizer else {
      files = .off
      return
    }
    let (files, diagnostic) = Self.restrict(settings, source, tokenKey: FileNeeds.tokenKey(material))
    self.files = files
    diagnostics = [diagnostic].compactMap { $0 }
  }

  private static func restrict(
    _ settings: Settings, _ source: ConfigurationSource, tokenKey: MaterialReference?
  ) -> (Files, Diagnostic?) {
    if let key = tokenKey {
      return (
        .free(because: "a key is in a token"),
        Diagnostic(
          .notice, at: key.location,
          "files are not restricted by Landlock: the module of the token \"\(key)\" opens files that only it knows")
      )
    }
    // A thread that exists already would stay free.
    guard PrivilegeLimits.threads ?? 1 == 1 else { return (.free(because: "other threads exist"), nil) }
    let rules = rules(for: settings, source)
    switch Landlock.restrict(to: rules) {
    case .restricted(let version): return (.restricted(rules, version: version), nil)
    case .missing:
      return (
        .free(because: "the kernel has no Landlock"),
        Diagnostic(.notice, at: nil, "files are not restricted: the kernel has no Landlock (Linux 5.13 has it)")
      )
    case .failed(let call, let code):
      let reason = "\(call) failed (\(code): \(String(cString: strerror(code))))"
      return (
        .free(because: reason),
        Diagnostic(
          .warning, at: nil, "files are not restricted by Landlock: \(reason)",
          hint: "`sandbox seccomp;` does without it, as in a container that forbids it")
      )
    }
  }

  private static func rules(for settings: Settings, _ source: ConfigurationSource) -> FileRules {
    let needs = FileNeeds.all(settings, files: FileNeeds.configuration(source))
    var rules = FileRules(needs, look: DiskPath.look)
    rules.grantSystem { name in getenv(name).map { String(cString: $0) } }
    return rules
  }

  /// Restricts the system calls of every thread. Call this when the user has been changed and limits have been set.
  package mutating func restrictCalls() {
    guard wanted.restrictsCalls, !hasSanitizer else { return }
    switch SystemCallFilter.install() {
    case .installed: filtersCalls = true
    case .failed(let call, let code):
      let reason = "\(call) failed (\(code): \(String(cString: strerror(code))))"
      callFault = reason
      diagnostics.append(
        Diagnostic(
          .warning, at: nil, "system calls are not restricted by seccomp: \(reason)",
          hint: "`sandbox landlock;` does without it"))
    }
  }

  /// Lets the processes that this one has started end.
  func close() {
    hook?.close()
    opener?.close()
    starter?.close()
  }

  /// Refuses a configuration that names paths for which the sandbox has no rule: opening them would fail, perhaps only
  /// when a request needs them. The same for programs of dns-01, and names for them, that the start did not have.
  package func check(_ settings: Settings, configuration source: ConfigurationSource) throws(Refusal) {
    if let new = ChallengeHook.permissions(settings).first(where: { !(hook?.permits($0) ?? false) }) {
      throw Refusal([
        Diagnostic(
          .error, at: settings.http[ACMESettings.self].certificates.first { new.isFor($0) }?.location,
          "\"challenge dns-01 \(new.program)\" for \(new.name) was not in the configuration of the start",
          hint: "a reload can't widen what programs may be run for: restart, or replace the process (USR2)")
      ])
    }
    guard case .restricted(let rules, _) = files else { return }
    let helped = opener == nil ? [] : FileNeeds.readByOpener(settings, source)
    let unmet = rules.unmet(of: Self.rules(for: settings, source)).filter { need in
      need.use != .read || !helped.contains(need.path)
    }
    guard !unmet.isEmpty else { return }
    var parser = Parser(mainFile: source.name, files: .disk)
    let statements = source.parse(&parser)
    throw Refusal(
      unmet.map { need in
        Diagnostic(
          .error,
          at: need.location ?? PathPlaces.place(of: need.path, in: statements, folder: settings.folder),
          "\"\(need.path)\" is outside the folders that the sandbox left the process when it started",
          hint:
            "a reload can't widen the sandbox: a new process may use this path (sallyport reload --restart, or a restart); or keep it in a folder in use"
        )
      })
  }

  /// For the log: what is in effect.
  package var summary: String {
    let files =
      switch files {
      case .off: "files unrestricted"
      case .restricted(let rules, let version): "files restricted by Landlock \(version) to \(rules.access.count) paths"
      case .free(let reason): "files unrestricted (\(reason))"
      }
    let calls =
      filtersCalls
      ? "system calls restricted by seccomp" : "system calls unrestricted\(callFault.map { " (\($0))" } ?? "")"
    let memory =
      switch keyMemory {
      case .locked: "keys in locked memory"
      case .swappable(let reason): "keys in memory that can be swapped (\(reason.words))"
      case .missing: "keys in ordinary memory"
      }
    return "sandbox: \(files), \(calls), \(memory)"
  }
}
