import Configuration
import Glibc
package import Observability
import Proxy
import Sandbox
import Language

/// The result of `sallyport check`. It reads a configuration, loads its material and resolves its names as `run` would,
/// but binds no socket and opens no log.
package struct Check {
  package private(set) var diagnostics: [Diagnostic]
  /// The effective policy of every server; empty when the configuration could not be read.
  package let policy: [String]
  private let path: String
  private let shared: SharedState
  private let dump: ConfigurationDump
  /// nil: the configuration could not be read.
  private let settings: Settings?
  /// The loaded files that do not exist, whoever looks.
  private let missing: Set<String>
  private let excerpts: SourceExcerpts

  package init(_ path: String) {
    // Read before the privileges are dropped: the serving user need not be able to read the files.
    dump = ConfigurationDump(ConfigurationSource(path))
    excerpts = SourceExcerpts(dump)
    let (settings, draft, found) = Configuration.read(path: path)
    self.path = path
    shared = SharedState()
    self.settings = settings
    missing = settings?.http.reloadedFiles.filter { access($0, F_OK) != 0 } ?? []
    guard let settings else {
      diagnostics = found + KeyMaterial.faults(in: draft?.http, besides: found, sharing: shared)
      policy = []
      return
    }
    let material = KeyMaterial(loading: settings.http, sharing: shared)
    // Only a warning: the machine that checks a configuration is not always the one that runs it.
    let nameServers = NameServerResolution(settings.http.resolvers, former: nil, by: shared.resolver)
    let resolution = Resolution.resolve(settings.http.groups, by: shared.resolver)
    let unresolved = (nameServers.diagnostics + resolution.diagnostics).map { diagnostic in
      var warning = diagnostic
      warning.severity = .warning
      return warning
    }
    diagnostics =
      found + UnheededRevocations.warnings(settings.http) + ServingFolders.bodyFaults(settings) + material.diagnostics
      + unresolved
      + WorkloadEndpoint.faults(settings, severity: .warning) + WorkloadEndpoint.note(settings)
      + Self.kernelNotes(settings.main.sandbox, hasLandlock: Landlock.version != nil)
    policy = EffectivePolicy(settings.http, material, resolution.groups).lines
  }

  /// What the kernel of this machine lacks. It may not be the machine that runs the configuration.
  static func kernelNotes(_ sandbox: SandboxSettings, hasLandlock: Bool) -> [Diagnostic] {
    guard sandbox.restrictsFiles, !hasLandlock else { return [] }
    return [
      Diagnostic(
        .notice, at: nil, "files would not be restricted here: the kernel has no Landlock",
        hint: "Linux 5.13 has it, unless its parameter lsm= leaves it out")
    ]
  }

  /// Drops the privileges that `run` would drop, and reports what the serving user can't read. The process can't regain
  /// them, so call this last.
  package mutating func becomeServingUser() {
    guard geteuid() == 0, let settings else { return }
    if settings.main.user == nil {
      diagnostics.append(
        Diagnostic(
          .notice, at: nil, "started by root it serves as \(settings.main.servingUser), the default of `user`",
          hint: "say `user NAME;`, or `user root;` where it must stay root"))
    }
    // What an error already says of a place is the cause of what the serving user finds there.
    let faults = Set(diagnostics.filter { $0.severity == .error }.compactMap(\.location))
    let source = ConfigurationSource(path)
    // `run` asks a process that stays root. Here root itself tries, as long as it is root.
    var opener = Privileges.userToBecome(settings.main).map { OpenerService(source, for: $0) }
    var refusals: [OpenerRequest: OpenerRefusal] = [:]
    let madeByStart = ServingFolders.bodyFoldersToMake(settings)
    for request in ServingAccess.requests(settings) { refusals[request] = opener?.trial(of: request) }
    do throws(Refusal) {
      let ignored = try Privileges.drop(settings.main)
      let found = ServingAccess.warnings(
        settings, configuration: source, sharing: shared, besides: missing.union(madeByStart)
      ) { [refusals] in refusals[$0] }
      diagnostics += [ignored].compactMap { $0 }
      diagnostics += found.filter { warning in !(warning.location.map { faults.contains($0) } ?? false) }
    } catch {
      diagnostics += error.diagnostics
    }
  }

  /// Writes the configuration and its included files to stdout (`ConfigurationDump`).
  package func writeDump() { FormattedFile.write(dump.text, to: STDOUT_FILENO) }

  /// What is found, for a person or a program.
  package func report(isStrict: Bool, detail: CheckReport.Detail = .summary) -> CheckReport {
    CheckReport(path, diagnostics, policy: policy, excerpts, isStrict: isStrict, detail: detail)
  }

  package func count(_ severity: Diagnostic.Severity) -> Int {
    diagnostics.reduce(0) { $0 + ($1.severity == severity ? 1 : 0) }
  }
}
