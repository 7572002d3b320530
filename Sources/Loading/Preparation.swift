import Configuration
import Crypto
import Features
import Forward
package import Language
package import Observability
package import Traffic
import Upstream

/// A configuration with its logs, material and names, but without sockets: the first phase of a start or reload.
package struct Preparation: Sendable {
  package let settings: Settings
  package let generation: Generation
  /// What the next generation may reuse.
  package private(set) var material: FormerMaterial
  /// The states of the key, certificate and trust files before they were read.
  package var files: FileStates { material.files }
  /// Warnings and notices; no errors.
  package let diagnostics: [Diagnostic]

  /// Parses the configuration, or reports all that is wrong with it and with the files that it names.
  package static func read(
    _ path: String, sharing shared: SharedState
  ) throws(Refusal) -> (settings: Settings, diagnostics: [Diagnostic]) {
    try read(ConfigurationSource(path), sharing: shared)
  }

  package static func read(
    _ source: ConfigurationSource, sharing shared: SharedState, files: SourceFiles = .disk
  ) throws(Refusal) -> (settings: Settings, diagnostics: [Diagnostic]) {
    let recorder = SourceRecorder()
    let (read, draft, diagnostics) = Configuration.read(source, files: recorder.recording(files))
    guard var settings = read else {
      throw Refusal(diagnostics + KeyMaterial.faults(in: draft?.http, besides: diagnostics, sharing: shared))
    }
    if source.isReadAgain { settings.sources = SourceMarks(recorder.files) }
    return (settings, diagnostics + UnheededRevocations.warnings(settings.http))
  }

  /// Opens logs, loads material and resolves names. Tries all of it, to report all faults at once.
  ///
  /// `former`: the generation that serves until now. A file of it that is broken now keeps its former content, and stops
  /// nothing else. `onlyFiles`: the configuration is the same, and files have changed. Then logs and names stay as they
  /// are, so that a name that can't be resolved now does not block new files, and other faults are only warnings. Blocks
  /// with `ssl_reload off` keep their loaded material.
  package init(
    _ settings: Settings, after diagnostics: [Diagnostic], number: Int, logs files: LogFiles,
    sharing shared: SharedState, former: Preparation? = nil, onlyFiles: Bool = false
  ) throws(Refusal) {
    let logs =
      (onlyFiles ? former : nil).map { OpenLogs(of: $0.generation) }
      ?? OpenLogs(settings.main.errorLogs, settings.http, in: files)
    let seen = FileStates(of: settings.http.watchedFiles)
    var keeping = former?.material ?? FormerMaterial()
    if !onlyFiles { keeping.forgetUnwatched() }
    let material = KeyMaterial(loading: settings.http, keeping: keeping, seeing: seen, sharing: shared)
    let names = onlyFiles ? former?.generation.groups : nil
    let resolution =
      names.map { (groups: $0, diagnostics: []) } ?? Resolution.resolve(settings.http.groups, by: shared.resolver)
    let hosts = HostResolution(settings.http, former: onlyFiles ? former?.generation : nil, by: shared.resolver)
    let nameServers = NameServerResolution(
      settings.http.resolvers, former: onlyFiles ? former?.generation : nil, by: shared.resolver)
    let folders = onlyFiles ? [] : ServingFolders.makeBodyFolders(settings) + AuthState.prepare(settings)
    let all =
      diagnostics + hosts.diagnostics + nameServers.diagnostics + logs.diagnostics + material.diagnostics
      + resolution.diagnostics + folders + (onlyFiles ? [] : WorkloadEndpoint.faults(settings))
    guard !all.contains(where: { $0.severity == .error }) else {
      let ofNames = (hosts.diagnostics + nameServers.diagnostics + resolution.diagnostics).filter {
        $0.severity == .error
      }
      let others = all.filter { $0.severity == .error }.count > ofNames.count
      throw Refusal(all, cause: others ? .configuration : .names(Self.names(of: settings)))
    }
    self.settings = settings
    self.diagnostics =
      all + (onlyFiles ? [] : Self.setAside(settings.http, damagedKeyvals: material.damagedStates, shared))
    self.material = FormerMaterial(material, files: seen)
    var (groups, parts) = (resolution.groups, material.parts)
    shared.features.prepare(&groups, settings.http, after: former?.generation, &parts)
    generation = Generation(
      number: number, http: settings.http, serverContexts: material.servers.map { $0?.context },
      upstreamContexts: material.upstreams.mapValues(\.context), groups: groups, errorLog: logs.errorLog,
      errorLogs: logs.errorLogs, accessLogs: logs.accessLogs, logFiles: logs.files,
      hosts: hosts.found,
      nameServers: nameServers.found, parts: parts)
  }

  /// The host names that a start resolves.
  private static func names(of settings: Settings) -> [String] {
    var addresses: [UpstreamAddress] = []
    for group in settings.http.groups where !group.isNamedToProxies {
      for server in group.servers where server.followed == nil { addresses.append(server.address) }
    }
    for resolver in settings.http.resolvers { addresses += resolver.servers.map(\.address) }
    var names: [String] = []
    for address in addresses { if case .name(let host, _) = address { names.append(host) } }
    for location in settings.http.servers.flatMap(\.root.withNested) {
      names += location.hosts.map(\.name)
    }
    return names
  }

  /// Removes what former processes that ended while they wrote have left beside the files that this process writes. Call this
  /// as the user that serves.
  package func removeDrafts() {
    let http = settings.http
    let states = http.stateFiles
    let denials = DenialState.folder.map { DenialState(folder: $0).path }
    for path in Set(states + material.fetched.map(\.path)).union(denials.map { [$0] } ?? []) {
      NewFile.removeDrafts(of: path)
    }
  }

  /// Keeps damaged files of states under other names. The servers that this process knows are written anew.
  private static func setAside(
    _ http: HTTPSettings, damagedKeyvals: [String], _ shared: SharedState
  ) -> [Diagnostic] {
    let groups = http.groups.filter(\.isStateDamaged)
    var found = (damagedKeyvals + groups.compactMap(\.stateFile)).map { path in
      do throws(NewFile.Failure) {
        let name = try NewFile.setAside(path)
        return Diagnostic(.warning, at: nil, "\"\(path)\" is damaged, and is kept as \"\(name)\"")
      } catch {
        return Diagnostic(
          .warning, at: nil, "\"\(path)\" is damaged, and can't get another name: \(error)",
          hint: "copy it: the next change by the API replaces it")
      }
    }
    for group in groups {
      do throws(ServerState.Fault) { try shared.rewriteState(of: group) } catch {
        found.append(
          Diagnostic(
            .warning, at: group.location, "the servers of upstream \"\(group.name)\" can't be written: \(error)",
            hint: "give the serving user the folder of its \"state\", or make room: a restart forgets them"))
      }
    }
    return found
  }

  /// The units of material that keep their former content, because their files can't be loaded.
  package var stale: [StaleMaterial] { material.stale }

  /// Call this after privileges were dropped: files that only root may read are forbidden from then on.
  package mutating func markForbidden() { material.markForbidden() }
}
