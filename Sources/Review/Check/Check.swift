import Configuration
import Features
import Forward
import Glibc
import Language
import Loading
package import Observability
import Sandbox
package import Traffic
import Transport
import Upstream

/// The result of `sallyport check`. It reads a configuration, loads its material, resolves its names and tries its addresses
/// and logs as `run` would, but listens on no socket and makes no file.
///
/// Whatever `run` would refuse is an error, and so is a server block that no client can get into.
package struct Check {
  /// Which facts count.
  package enum Scope: Sendable {
    /// This machine is the one that runs the configuration. `trial`: tries what a start needs of it besides files and names.
    case thisMachine(trial: @Sendable (Settings) -> [Diagnostic])
    /// Another machine runs it: names aren't looked up, and neither addresses nor folders tried.
    case files

    /// This machine, where a process serves the configuration already and has what a start needs.
    package static let serving = Scope.thisMachine { _ in [] }
  }

  package private(set) var diagnostics: [Diagnostic]
  /// The lines of the effective policy of every server; none when the configuration could not be read.
  package var policy: [String] { effective.lines }
  private let effective: PolicyReport
  private let path: String
  private let shared: SharedState
  private let dump: ConfigurationDump
  /// nil: the configuration could not be read.
  private let settings: Settings?
  /// The loaded files that do not exist, whoever looks.
  private let missing: Set<String>
  private let excerpts: SourceExcerpts

  package init(_ path: String, _ scope: Scope) {
    // Read before the privileges are dropped: the serving user need not be able to read the files.
    dump = ConfigurationDump(ConfigurationSource(path))
    excerpts = SourceExcerpts(dump)
    let isHere = if case .thisMachine = scope { true } else { false }
    let (settings, draft, found) = Configuration.read(ConfigurationSource(path), looksUpNames: isHere)
    self.path = path
    shared = SharedState(features: Features.all)
    self.settings = settings
    missing = settings?.http.reloadedFiles.filter { access($0, F_OK) != 0 } ?? []
    guard let settings else {
      diagnostics = Self.refusingLockouts(
        found + KeyMaterial.faults(in: draft?.http, besides: found, sharing: shared))
      effective = .unknown
      return
    }
    let material = KeyMaterial(loading: settings.http, sharing: shared)
    let machine: [Diagnostic]
    let groups: [ResolvedGroup]
    switch scope {
    case .thisMachine(let trial):
      let resolution = Resolution.resolve(settings.http.groups, by: shared.resolver)
      groups = resolution.groups
      machine =
        HostResolution(settings.http, former: nil, by: shared.resolver).diagnostics
        + NameServerResolution(settings.http.resolvers, former: nil, by: shared.resolver).diagnostics
        + resolution.diagnostics + trial(settings)
        + ServingFolders.bodyFaults(settings)
        + WorkloadEndpoint.faults(settings)
        + Self.kernelNotes(settings.main.sandbox, hasLandlock: Landlock.version != nil)
    case .files:
      let nobody = Resolver(pool: shared.pool) { _, _ in [] }
      groups = Resolution.resolve(settings.http.groups, by: nobody).groups
      machine = WorkloadEndpoint.faults(settings, severity: .warning)
    }
    diagnostics = Self.refusingLockouts(
      found + UnheededRevocations.warnings(settings.http) + material.diagnostics + machine
        + WorkloadEndpoint.note(settings))
    let policy = EffectivePolicy(settings.http, material, groups)
    effective = PolicyReport(policy.lines, doors: policy.doors)
  }

  /// Makes an error of what keeps every client out of a server block.
  private static func refusingLockouts(_ found: [Diagnostic]) -> [Diagnostic] {
    found.map { diagnostic in
      guard diagnostic.consequence == .lockout else { return diagnostic }
      var error = diagnostic
      error.severity = .error
      return error
    }
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
    CheckReport(path, diagnostics, policy: effective, excerpts, isStrict: isStrict, detail: detail)
  }

  package func count(_ severity: Diagnostic.Severity) -> Int {
    diagnostics.reduce(0) { $0 + ($1.severity == severity ? 1 : 0) }
  }
}
